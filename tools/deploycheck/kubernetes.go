package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/santhosh-tekuri/jsonschema/v6"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

//go:embed scaledobject.schema.json
var scaledObject []byte

// manifests builds each folder as kubectl apply -k does, reads every object into the API's
// own types, where an unknown member is an error, and holds them against each other.
func manifests(r *report, dir string) {
	for _, folder := range []string{"base", "keda", "git"} {
		path := filepath.Join(dir, "kubernetes", folder)
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), path)
		if err != nil {
			r.bad("%s: %v", path, err)
			continue
		}
		before, c := r.wrong, &cluster{}
		for _, object := range built.Resources() {
			text, err := object.AsYAML()
			if err == nil {
				err = c.read(object.GetKind(), text)
			}
			if err != nil {
				r.bad("%s: %s %s: %v", path, object.GetKind(), object.GetName(), err)
			}
		}
		for _, wrong := range c.unmet() {
			r.bad("%s: %s", path, wrong)
		}
		if r.wrong == before {
			r.ok("%s: %d objects", path, len(built.Resources()))
		}
	}
}

// cluster is what one folder makes.
type cluster struct {
	workloads []workload
	services  []corev1.Service
	budgets   []policyv1.PodDisruptionBudget
	policies  []networkingv1.NetworkPolicy
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
	case "Namespace":
		return keep(new([]corev1.Namespace), text)
	case "ServiceAccount":
		return keep(new([]corev1.ServiceAccount), text)
	case "ConfigMap":
		return keep(new([]corev1.ConfigMap), text)
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
