package app

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/ingress"
	"weir/schemas"
)

// TestASurfaceIsWhole: a node does not start without one of the parts of a kind, which its first request
// would find missing.
func TestASurfaceIsWhole(t *testing.T) {
	t.Parallel()
	for missing, leave := range map[string]func(s *surfaces){
		"kind plan has no surface in ingress": func(s *surfaces) {
			s.in = slices.DeleteFunc(s.in, func(in ingress.Surface) bool { return in.Kind == schemas.KindPlan })
		},
		"kind plan has no view with an answer in egress": func(s *surfaces) {
			s.out = slices.DeleteFunc(s.out, func(out egress.Surface) bool { return out.Name == "plans" })
		},
		"kind plan has no executor in processors": func(s *surfaces) { delete(s.works, schemas.KindPlan) },
		"kind echo is not in schemas.Kinds":       func(s *surfaces) { s.add(one(ingress.Surface{Kind: "echo"}), nil, nil) },
	} {
		s := (&App{role: RoleWorker}).descriptions()
		require.NoError(t, s.whole())
		leave(s)
		require.EqualError(t, s.whole(), missing)
	}
}
