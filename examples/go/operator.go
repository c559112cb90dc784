// Package operator is a small operator: a Website is run by a Deployment, and its status says how many pods are ready.
package operator

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Websites is where Websites are served.
var Websites = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "websites"}

// Definitions is where CustomResourceDefinitions are served.
var Definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Definition is the CustomResourceDefinition of Websites.
func Definition() *unstructured.Unstructured {
	spec := map[string]any{
		"type": "object", "required": []any{"image", "replicas"},
		"properties": map[string]any{
			"image": map[string]any{"type": "string"}, "replicas": map[string]any{"type": "integer"},
		},
	}
	status := map[string]any{
		"type": "object", "properties": map[string]any{"ready": map[string]any{"type": "integer"}},
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "websites.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"kind": "Website", "plural": "websites"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": spec, "status": status},
				}},
			}},
		},
	}}
}

// Run brings about what each Website wants, until the context ends.
func Run(ctx context.Context, config *rest.Config) error {
	websites, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	built, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	changes, err := websites.Resource(Websites).Watch(ctx, v1.ListOptions{})
	if err != nil {
		return err
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		website, ok := change.Object.(*unstructured.Unstructured)
		if !ok || change.Type == "DELETED" {
			continue
		}
		if err := reconcile(ctx, built, websites, website); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func reconcile(
	ctx context.Context, built kubernetes.Interface, websites dynamic.Interface, website *unstructured.Unstructured,
) error {
	wanted, err := json.Marshal(deployment(website))
	if err != nil {
		return err
	}
	force := true
	apply := v1.PatchOptions{FieldManager: "website-operator", Force: &force}
	deployments := built.AppsV1().Deployments(website.GetNamespace())
	made, err := deployments.Patch(ctx, website.GetName(), types.ApplyPatchType, wanted, apply)
	if err != nil {
		return err
	}
	ready, _, _ := unstructured.NestedInt64(website.Object, "status", "ready")
	if ready == int64(made.Status.ReadyReplicas) {
		return nil
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{"ready": made.Status.ReadyReplicas}})
	if err != nil {
		return err
	}
	own := websites.Resource(Websites).Namespace(website.GetNamespace())
	_, err = own.Patch(ctx, website.GetName(), types.MergePatchType, status, v1.PatchOptions{}, "status")
	return err
}

func deployment(website *unstructured.Unstructured) map[string]any {
	name, labels := website.GetName(), map[string]any{"website": website.GetName()}
	image, _, _ := unstructured.NestedString(website.Object, "spec", "image")
	replicas, _, _ := unstructured.NestedInt64(website.Object, "spec", "replicas")
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": name, "ownerReferences": []any{map[string]any{
			"apiVersion": website.GetAPIVersion(), "kind": website.GetKind(), "name": name, "uid": website.GetUID(),
			"controller": true,
		}}},
		"spec": map[string]any{
			"replicas": replicas, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": image}}},
			},
		},
	}
}
