package schemas_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestReadEcho(t *testing.T) {
	t.Parallel()
	for inputs, want := range map[string]schemas.Echo{
		`{}`:                                   {Steps: 1},
		`{"steps":null,"interval_ms" : null}`:  {Steps: 1},
		`{"steps": 1000 ,"interval_ms":60000}`: {Steps: 1000, Interval: time.Minute},
		`{"interval_ms":-0}`:                   {Steps: 1},
		`{"Steps":"x","STEPS":[],"n":1e3}`:     {Steps: 1},
	} {
		got, err := schemas.ReadEcho(json.RawMessage(inputs))
		require.NoError(t, err, inputs)
		require.Equal(t, want, got, inputs)
	}
	for inputs, member := range map[string]string{
		`{"steps":0}`: "steps", `{"steps":1001}`: "steps", `{"steps":1.0}`: "steps", `{"steps":1e1}`: "steps",
		`{"steps":"1"}`: "steps", `{"steps":99999999999999999999}`: "steps", `{"steps":true}`: "steps",
		`{"interval_ms":-1}`: "interval_ms", `{"interval_ms":60001}`: "interval_ms", `{"interval_ms":1e3}`: "interval_ms", `{"interval_ms":{}}`: "interval_ms",
	} {
		_, err := schemas.ReadEcho(json.RawMessage(inputs))
		var refused *schemas.EchoError
		require.ErrorAs(t, err, &refused, inputs)
		require.Equal(t, member, refused.Member, inputs)
	}
	for _, inputs := range []string{`[]`, `1`, ``, `{`} {
		_, err := schemas.ReadEcho(json.RawMessage(inputs))
		require.Error(t, err, inputs)
	}
}
