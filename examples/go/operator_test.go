package operator

// The operator, tested on a cluster of its own, which klab serves for as long as the test runs.
//
//	go mod tidy && go test ./...

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// cluster starts a cluster that ends with the test.
func cluster(t *testing.T) *rest.Config {
	program := os.Getenv("KLAB")
	if program == "" {
		program = "klab"
	}
	klab := exec.Command(program, "serve", "--ephemeral", "--nodes", "3", "--clock", "stepped")
	klab.Stderr = os.Stderr
	output, err := klab.StdoutPipe()
	must(t, err)
	must(t, klab.Start())
	t.Cleanup(func() {
		_ = klab.Process.Signal(os.Interrupt)
		_ = klab.Wait()
	})
	// The line comes when the cluster is ready.
	kubeconfig, err := bufio.NewReader(output).ReadBytes('\n')
	must(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	must(t, err)
	return config
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// advance moves the cluster's clock: what takes it five minutes is done when this returns.
func advance(t *testing.T, client kubernetes.Interface, duration string) {
	t.Helper()
	body := fmt.Sprintf(`{"advance":%q}`, duration)
	moved := client.CoreV1().RESTClient().Post().AbsPath("/klab/v1/clock").Body([]byte(body)).
		SetHeader("Content-Type", "application/json").Do(t.Context())
	must(t, moved.Error())
}

// waitFor waits for the operator, which works at its own pace.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func TestAWebsiteIsRolledOutAndSurvivesANode(t *testing.T) {
	config := cluster(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	objects, err := dynamic.NewForConfig(config)
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	_, err = objects.Resource(Definitions).Create(ctx, Definition(), v1.CreateOptions{})
	must(t, err)
	go func() {
		if err := Run(ctx, config); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()

	// The nodes of its pods that run this image and are not about to end.
	pods := func(image string) (nodes []string) {
		list, err := client.CoreV1().Pods("default").List(ctx, v1.ListOptions{LabelSelector: "website=shop"})
		must(t, err)
		for _, pod := range list.Items {
			runs := pod.Spec.Containers[0].Image == image && pod.Status.Phase == core.PodRunning
			if runs && pod.DeletionTimestamp == nil {
				nodes = append(nodes, pod.Spec.NodeName)
			}
		}
		return nodes
	}

	websites := objects.Resource(Websites).Namespace("default")
	shop := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Website", "metadata": map[string]any{"name": "shop"},
		"spec": map[string]any{"image": "shop:1", "replicas": int64(3)},
	}}
	_, err = websites.Create(ctx, shop, v1.CreateOptions{})
	must(t, err)
	waitFor(t, "three pods", func() bool { return len(pods("shop:1")) == 3 })

	image := []byte(`{"spec":{"image":"shop:2"}}`)
	_, err = websites.Patch(ctx, "shop", types.MergePatchType, image, v1.PatchOptions{})
	must(t, err)
	waitFor(t, "the rollout", func() bool { return len(pods("shop:2")) == 3 })
	if old := pods("shop:1"); len(old) > 0 {
		t.Fatalf("pods of the old image: %v", old)
	}

	// A node falls silent; after five minutes its pods are evicted and made anew elsewhere.
	failed := pods("shop:2")[0]
	silent := []byte(`{"metadata":{"annotations":{"klab.dev/heartbeat":"stopped"}}}`)
	_, err = client.CoreV1().Nodes().Patch(ctx, failed, types.MergePatchType, silent, v1.PatchOptions{})
	must(t, err)
	advance(t, client, "1m")
	node, err := client.CoreV1().Nodes().Get(ctx, failed, v1.GetOptions{})
	must(t, err)
	for _, condition := range node.Status.Conditions {
		if condition.Type == core.NodeReady && condition.Status != core.ConditionUnknown {
			t.Fatalf("the node is %s", condition.Status)
		}
	}
	advance(t, client, "5m")
	left := pods("shop:2")
	if len(left) != 3 {
		t.Fatalf("pods on %v", left)
	}
	for _, node := range left {
		if node == failed {
			t.Fatalf("a pod is still on %s", failed)
		}
	}
}
