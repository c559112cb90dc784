// The operator, tested on a cluster of its own, which klab serves for as long as the test runs.
//
//     npm install && npm test

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import https from 'node:https';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import * as k8s from '@kubernetes/client-node';

import * as operator from './website-operator.js';

const config = new k8s.KubeConfig();
let klab;

before(async () => {
  const words = ['serve', '--ephemeral', '--nodes', '3', '--clock', 'stepped'];
  klab = spawn(process.env.KLAB ?? 'klab', words, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(klab, 'spawn');
  // The line comes when the cluster is ready.
  const lines = createInterface({ input: klab.stdout });
  const { value, done } = await lines[Symbol.asyncIterator]().next();
  assert(!done, 'klab ended before its cluster was ready');
  config.loadFromString(value);
});

after(() => klab.kill());

// Moves the cluster's clock: what takes it five minutes is done when this returns.
async function advance(duration) {
  const options = { method: 'POST', headers: { 'Content-Type': 'application/json' } };
  await config.applyToHTTPSOptions(options);
  const response = await new Promise((resolve, reject) => {
    const request = https.request(`${config.getCurrentCluster().server}/klab/v1/clock`, options, resolve);
    request.on('error', reject);
    request.end(JSON.stringify({ advance: duration }));
  });
  response.resume();
  assert.equal(response.statusCode, 200);
}

// The operator works at its own pace.
async function waitFor(what, condition) {
  const end = Date.now() + 30_000;
  while (!(await condition())) {
    assert(Date.now() < end, `never happened: ${what}`);
    await sleep(20);
  }
}

test('a website is rolled out and survives a node', { timeout: 60_000 }, async () => {
  const core = config.makeApiClient(k8s.CoreV1Api);
  const websites = config.makeApiClient(k8s.CustomObjectsApi);
  const merge = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);
  const here = { ...operator.kind, namespace: 'default' };
  await config.makeApiClient(k8s.ApiextensionsV1Api).createCustomResourceDefinition({ body: operator.definition });
  const running = await operator.run(config);

  // The nodes of its pods that run this image and are not about to end.
  const pods = async (image) => {
    const { items } = await core.listNamespacedPod({ namespace: 'default', labelSelector: 'website=shop' });
    return items
      .filter((pod) => pod.spec.containers[0].image === image)
      .filter((pod) => pod.status.phase === 'Running' && !pod.metadata.deletionTimestamp)
      .map((pod) => pod.spec.nodeName);
  };

  const website = {
    apiVersion: 'example.com/v1',
    kind: 'Website',
    metadata: { name: 'shop' },
    spec: { image: 'shop:1', replicas: 3 },
  };
  await websites.createNamespacedCustomObject({ ...here, body: website });
  await waitFor('three pods', async () => (await pods('shop:1')).length === 3);

  await websites.patchNamespacedCustomObject({ ...here, name: 'shop', body: { spec: { image: 'shop:2' } } }, merge);
  await waitFor('the rollout', async () => (await pods('shop:2')).length === 3);
  assert.deepEqual(await pods('shop:1'), []);

  // A node falls silent; after five minutes its pods are evicted and made anew elsewhere.
  const [failed] = await pods('shop:2');
  const silent = { metadata: { annotations: { 'klab.dev/heartbeat': 'stopped' } } };
  await core.patchNode({ name: failed, body: silent }, merge);
  await advance('1m');
  const { status } = await core.readNode({ name: failed });
  assert.equal(status.conditions.find(({ type }) => type === 'Ready').status, 'Unknown');
  assert((await pods('shop:2')).includes(failed));
  await advance('5m');
  assert.equal((await pods('shop:2')).length, 3);
  assert(!(await pods('shop:2')).includes(failed));

  await running.stop();
});
