package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// unmet is what the objects of a variant lack, taken together.
func (c *cluster) unmet() (wrong []string) {
	for _, w := range c.workloads {
		for _, what := range c.lacks(w) {
			wrong = append(wrong, w.name+" lacks "+what)
		}
	}
	for _, b := range c.budgets {
		wrong = append(wrong, c.selects("budget "+b.Name, b.Spec.Selector)...)
	}
	for _, p := range c.policies {
		wrong = append(wrong, c.selects("network policy "+p.Name, &p.Spec.PodSelector)...)
	}
	for _, s := range c.services {
		wrong = append(wrong, c.selects("service "+s.Name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})...)
	}
	for _, route := range c.routes {
		for _, rule := range route.Spec.Rules {
			for _, to := range rule.BackendRefs {
				if !slices.ContainsFunc(c.services, func(s corev1.Service) bool { return s.Name == string(to.Name) }) {
					wrong = append(wrong, fmt.Sprintf("route %s leads to %s, which is not there", route.Name, to.Name))
				}
			}
		}
	}
	for _, name := range c.scaled {
		at := slices.IndexFunc(c.workloads, func(w workload) bool { return w.name == name })
		switch {
		case at < 0:
			wrong = append(wrong, "the scaler sets "+name+", which is not there")
		case c.workloads[at].replicas != nil:
			wrong = append(wrong, name+" has a number of replicas beside its scaler")
		}
	}
	return wrong
}

// selects reports a selector that covers no pod: because of a mistyped label, a budget or a policy
// would silently apply to nothing.
func (c *cluster) selects(who string, selector *metav1.LabelSelector) []string {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", who, err)}
	}
	for _, w := range c.workloads {
		if s.Matches(labels.Set(w.pods.Labels)) {
			return nil
		}
	}
	return []string{who + " selects no pod"}
}

// lacks is what a workload does not say.
func (c *cluster) lacks(w workload) (missing []string) {
	pod := w.pods.Spec
	demand := func(met bool, what string) {
		if !met {
			missing = append(missing, what)
		}
	}
	demand(slices.ContainsFunc(c.budgets, func(b policyv1.PodDisruptionBudget) bool {
		s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		return err == nil && s.Matches(labels.Set(w.pods.Labels))
	}), "a disruption budget")
	demand(pod.SecurityContext != nil && yes(pod.SecurityContext.RunAsNonRoot), "runAsNonRoot")
	demand(pod.SecurityContext != nil && pod.SecurityContext.SeccompProfile != nil, "a seccomp profile")
	demand(pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken, "automountServiceAccountToken: false")
	demand(pod.TerminationGracePeriodSeconds != nil && *pod.TerminationGracePeriodSeconds >= 45, "the time to finish running work (45 s)")
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, name := range w.claims {
		volumes[name] = true
	}
	for _, one := range pod.Containers {
		s := one.SecurityContext
		demand(s != nil && yes(s.ReadOnlyRootFilesystem), "readOnlyRootFilesystem")
		demand(s != nil && s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation, "allowPrivilegeEscalation: false")
		demand(s != nil && s.Capabilities != nil && slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}), "capabilities: {drop: [ALL]}")
		demand(one.LivenessProbe != nil && one.ReadinessProbe != nil && one.StartupProbe != nil, "a probe")
		demand(!one.Resources.Requests.Cpu().IsZero() && !one.Resources.Limits.Memory().IsZero(), "a request for CPU and a limit of memory")
		for _, m := range one.VolumeMounts {
			demand(volumes[m.Name], "the volume "+m.Name)
		}
	}
	return missing
}

func yes(b *bool) bool { return b != nil && *b }
