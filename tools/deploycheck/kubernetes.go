package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

//go:embed scaledobject.schema.json
var scaledObject []byte

// variants are values under which the chart is rendered, over values-cluster.yaml if the name begins
// with "cluster".
var variants = map[string]string{
	"single":            "ingress: {enabled: true, tlsSecret: t}\nserviceMonitor: {enabled: true}\nsecrets: {existingSecret: s}\nenv: [{name: A, value: b}]",
	"claim":             "persistence: {existingClaim: c}\ngateway: {enabled: true}\nnetworkPolicy: {targets: [{to: [{podSelector: {}}]}]}",
	"plain":             "networkPolicy: {enabled: false}\npersistence: {storageClass: fast}",
	"cluster":           "",
	"cluster, no git":   "git: {enabled: false}\nserviceMonitor: {enabled: true}",
	"cluster with KEDA": "keda: {enabled: true}",
}

// charts lints the chart, renders it as helm template does, reads every object into the API's own
// types, where an unknown member is an error, and checks them together.
func charts(r *report, dir string) {
	path := filepath.Join(dir, "helm", "weir")
	linted := lint.RunAll(path, map[string]any{}, "weir")
	for _, m := range linted.Messages {
		if m.Severity >= support.WarningSev {
			r.bad("%s: %v", path, m)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		before := r.wrong
		objects, err := render(path, name)
		if err != nil {
			r.bad("%s (%s): %v", path, name, err)
			continue
		}
		c := &cluster{}
		for _, text := range objects {
			var head struct {
				Kind     string
				Metadata struct{ Name string }
			}
			err := yaml.Unmarshal([]byte(text), &head)
			if err == nil {
				err = c.read(head.Kind, []byte(text))
			}
			if err != nil {
				r.bad("%s (%s): %s %s: %v", path, name, head.Kind, head.Metadata.Name, err)
			}
		}
		for _, wrong := range c.unmet() {
			r.bad("%s (%s): %s", path, name, wrong)
		}
		if r.wrong == before {
			r.ok("%s (%s): %d objects", path, name, len(objects))
		}
	}
}

// render returns the objects of the chart in a variant.
func render(path, variant string) (objects []string, err error) {
	chart, err := loader.Load(path)
	if err != nil {
		return nil, err
	}
	base, values := map[string]any{}, map[string]any{}
	if strings.HasPrefix(variant, "cluster") {
		data, err := os.ReadFile(filepath.Join(path, "values-cluster.yaml"))
		if err != nil {
			return nil, err
		}
		if err := yaml.UnmarshalStrict(data, &base); err != nil {
			return nil, err
		}
	}
	if err := yaml.UnmarshalStrict([]byte(variants[variant]), &values); err != nil {
		return nil, err
	}
	values = util.MergeTables(values, base)
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "weir", Namespace: "weir", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, doc := range strings.Split("\n"+files[name], "\n---") {
			content := strings.TrimSpace(doc)
			for strings.HasPrefix(content, "#") {
				_, content, _ = strings.Cut(content, "\n")
				content = strings.TrimSpace(content)
			}
			if content != "" {
				objects = append(objects, content)
			}
		}
	}
	return objects, nil
}

// cluster is what one variant creates.
type cluster struct {
	workloads []workload
	services  []corev1.Service
	budgets   []policyv1.PodDisruptionBudget
	policies  []networkingv1.NetworkPolicy
	routes    []gatewayv1.HTTPRoute
	scaled    []string // names of the deployments that a scaler sets
}

// workload is what makes pods: a Deployment or a StatefulSet.
type workload struct {
	name     string
	replicas *int32
	pods     corev1.PodTemplateSpec
	claims   []string // volumes that each pod gets of its own
}

// read reads one object strictly.
func (c *cluster) read(kind string, text []byte) error {
	switch kind {
	case "Deployment":
		var d appsv1.Deployment
		err := yaml.UnmarshalStrict(text, &d)
		c.workloads = append(c.workloads, workload{name: d.Name, replicas: d.Spec.Replicas, pods: d.Spec.Template})
		return err
	case "StatefulSet":
		return c.stateful(text)
	case "Service":
		return keep(&c.services, text)
	case "PodDisruptionBudget":
		return keep(&c.budgets, text)
	case "NetworkPolicy":
		return keep(&c.policies, text)
	case "ServiceAccount":
		return keep(new([]corev1.ServiceAccount), text)
	case "ConfigMap":
		return keep(new([]corev1.ConfigMap), text)
	case "Ingress":
		return keep(new([]networkingv1.Ingress), text)
	case "HTTPRoute":
		return keep(&c.routes, text)
	case "ServiceMonitor":
		return keep(new([]monitoringv1.ServiceMonitor), text)
	case "ScaledObject":
		return c.scaler(text)
	default:
		return fmt.Errorf("deploycheck does not know this kind")
	}
}

func (c *cluster) stateful(text []byte) error {
	var s appsv1.StatefulSet
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return err
	}
	w := workload{name: s.Name, replicas: s.Spec.Replicas, pods: s.Spec.Template}
	for _, claim := range s.Spec.VolumeClaimTemplates {
		w.claims = append(w.claims, claim.Name)
	}
	c.workloads = append(c.workloads, w)
	return nil
}

func keep[T any](list *[]T, text []byte) error {
	var one T
	if err := yaml.UnmarshalStrict(text, &one); err != nil {
		return err
	}
	*list = append(*list, one)
	return nil
}

// scaler reads a ScaledObject by the schema of KEDA's own definition.
func (c *cluster) scaler(text []byte) error {
	doc, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(scaledObject))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("scaledobject.json", schema); err != nil {
		return err
	}
	compiled, err := compiler.Compile("scaledobject.json")
	if err != nil {
		return err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return err
	}
	var target struct {
		Spec struct {
			ScaleTargetRef struct{ Name string } `json:"scaleTargetRef"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(doc, &target); err != nil {
		return err
	}
	c.scaled = append(c.scaled, target.Spec.ScaleTargetRef.Name)
	return compiled.Validate(instance)
}
