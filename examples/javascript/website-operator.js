// A small operator: a Website is run by a Deployment, and its status says how many pods are ready.

import * as k8s from '@kubernetes/client-node';

export const kind = { group: 'example.com', version: 'v1', plural: 'websites' };

export const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'websites.example.com' },
  spec: {
    group: kind.group,
    scope: 'Namespaced',
    names: { kind: 'Website', plural: kind.plural },
    versions: [
      {
        name: kind.version,
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                required: ['image', 'replicas'],
                properties: { image: { type: 'string' }, replicas: { type: 'integer' } },
              },
              status: { type: 'object', properties: { ready: { type: 'integer' } } },
            },
          },
        },
      },
    ],
  },
};

// Brings about what each Website wants, until the informer that this gives is stopped.
export async function run(config, complain = console.error) {
  const websites = config.makeApiClient(k8s.CustomObjectsApi);
  const informer = k8s.makeInformer(config, '/apis/example.com/v1/websites', () =>
    websites.listClusterCustomObject(kind),
  );
  const changed = (website) => reconcile(config, website).catch(complain);
  informer.on('add', changed);
  informer.on('update', changed);
  await informer.start();
  return informer;
}

async function reconcile(config, website) {
  const { name, namespace } = website.metadata;
  const made = await config
    .makeApiClient(k8s.AppsV1Api)
    .patchNamespacedDeployment(
      { name, namespace, body: deployment(website), fieldManager: 'website-operator' },
      k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.ServerSideApply),
    );
  const ready = made.status?.readyReplicas ?? 0;
  if (website.status?.ready !== ready) {
    await config
      .makeApiClient(k8s.CustomObjectsApi)
      .patchNamespacedCustomObjectStatus(
        { ...kind, namespace, name, body: { status: { ready } } },
        k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch),
      );
  }
}

function deployment({ apiVersion, kind, metadata: { name, uid }, spec: { image, replicas } }) {
  const labels = { website: name };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, ownerReferences: [{ apiVersion, kind, name, uid, controller: true }] },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'web', image }] } },
    },
  };
}
