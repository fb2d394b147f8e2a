package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

func answerOf(node string, done bool, version string) nodeAnswer {
	return nodeAnswer{schemas.NodeReport{Node: node, Role: "worker", Version: version}, done}
}

// TestGather waits for whoever has said to be there, and for nobody longer than it takes.
func TestGather(t *testing.T) {
	t.Parallel()
	type testCase struct {
		say  func(answers chan<- nodeAnswer)
		want []string
		took time.Duration
	}
	table.Run(t, map[string]testCase{
		"nobody": {func(chan<- nodeAnswer) {}, []string{}, calling},
		"all are quick": {func(answers chan<- nodeAnswer) {
			for _, node := range []string{"b", "a"} {
				answers <- answerOf(node, false, "")
				answers <- answerOf(node, true, "v1")
			}
		}, []string{"a v1 ", "b v1 "}, calling},
		"one is slow": {func(answers chan<- nodeAnswer) {
			answers <- answerOf("a", false, "")
			time.Sleep(7 * time.Second)
			answers <- answerOf("a", true, "v2")
		}, []string{"a v2 "}, 7 * time.Second},
		"one dies": {func(answers chan<- nodeAnswer) {
			answers <- answerOf("a", false, "")
			answers <- answerOf("b", true, "v2") // its first word was lost, or comes late
			answers <- answerOf("b", false, "")
		}, []string{"a  it has not reported its result in time", "b v2 "}, telling},
	}, func(t *testing.T, tt testCase) {
		synctest.Test(t, func(t *testing.T) {
			answers, start := make(chan nodeAnswer), time.Now()
			go tt.say(answers)
			got := []string{}
			for _, n := range gather(t.Context(), answers, calling) {
				got = append(got, n.Node+" "+n.Version+" "+n.Error)
			}
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.took, time.Since(start))
		})
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.Empty(t, gather(ctx, make(chan nodeAnswer), calling))
		require.Equal(t, time.Second, time.Since(start))
	})
}
