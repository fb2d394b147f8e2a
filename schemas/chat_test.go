package schemas_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/schemas"
)

// TestChatModel: the name in an answer is a version of the one that was asked for, or
// stands nowhere but in the answer.
func TestChatModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sent, told, want string }{
		{"gpt-4o", "gpt-4o", "gpt-4o"},
		{"gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-2024-08-06"},
		{"openai/gpt-4o", "gpt-4o:1", "gpt-4o:1"},
		{"gpt-4o", "openai/gpt-4o", "gpt-4o"},
		{"gpt-4o", "gpt-4o-what-the-user-said", ""},
		{"gpt-4o", "gpt-4o-11111111111111111111", ""},
		{"gpt-4o", "other", ""},
		{"gpt-4o", "", ""},
		{"", "1", "1"},
	} {
		assert.Equal(t, c.want, schemas.ChatModel(c.sent, c.told), "%+v", c)
	}
}

func TestChatReason(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"stop", "other", "other", "other"},
		[]string{schemas.ChatReason("stop"), schemas.ChatReason("what the user said"), schemas.ChatReason(""), schemas.ChatReason("other")})
}
