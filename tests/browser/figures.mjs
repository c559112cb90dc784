// What only a browser can measure of a class; printed by `cargo bench --bench host`, never judged. What has to hold is asserted.
import assert from "node:assert/strict";

const LEARNERS = 1000;
const CONTEXTS = 30;
const TIMES = 7;

/** The middle one of several times, and the longest, in milliseconds. */
const spread = (times) => {
  const sorted = times.map(Math.round).sort((a, b) => a - b);
  return { half: sorted[Math.floor(sorted.length / 2)], slowest: sorted.at(-1) };
};

/** A stream of events that sends this once. */
const sends = (page, name, data) => page.addInitScript(([name, data]) => {
  globalThis.EventSource = class extends EventTarget {
    constructor() {
      super();
      globalThis.stream = this;
      setTimeout(() => this.dispatchEvent(new MessageEvent(name, { data })));
    }
  };
}, [name, JSON.stringify(data)]);

/** News of a class with these learners. */
const news = (many, row) => ({
  shard: 0, all: true, rows: Array.from({ length: many }, (_, number) => row(number)),
  class: { phase: "open", seats: many, most: many, people: many, shards: 1, away: [] },
});

/** When the page had drawn what it waited for, in milliseconds after its beginning, and how far its parts jumped. */
const drawn = (page, selector, many) => page.evaluate(async ([selector, many]) => {
  while (document.querySelectorAll(selector).length < many) await new Promise(requestAnimationFrame);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const at = performance.now();
  const jumps = await new Promise((done) => {
    new PerformanceObserver((list) => done(list.getEntries().reduce((sum, one) => sum + one.value, 0))).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done(0), 300);
  });
  return { at, jumps };
}, [selector, many]);

/** From the end of kubectl to the frame that shows what it did to the nodes of a pool. */
const changeToPixel = (page, verb) => page.evaluate(async (verb) => {
  const changed = new Promise((done) => {
    const watching = new MutationObserver(() => {
      watching.disconnect();
      requestAnimationFrame(() => done(performance.now()));
    });
    watching.observe(document.querySelector("[data-part=pools]"), { childList: true, subtree: true });
  });
  const answer = await fetch("console/run", {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ line: `kubectl ${verb} -l agentpool=extra`, files: {} }),
  });
  await answer.body.getReader().read();
  const done = performance.now();
  return Math.max(0, (await changed) - done);
}, verb);

export const joins = async (page, url, code, name) => {
  await page.goto(url);
  await page.locator("[name=code]").fill(code);
  await page.locator("[name=name]").fill(name);
  await page.locator("button[type=submit]").click();
  await page.locator("a.next").click();
  await page.waitForSelector("g.pod");
};

export const classFigures = async ({ open }, browser, url, code, link) => {
  const own = { ignoreHTTPSErrors: true };
  const figures = {};
  const learner = await open(browser, own);
  await joins(learner, url, code, "Ann");
  const paints = [];
  for (let load = 0; load < TIMES; load += 1) {
    await learner.reload();
    await learner.waitForSelector("g.pod");
    paints.push(await learner.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
  }
  figures.first_contentful_paint_ms = spread(paints);
  figures.seat_page_kib = await learner.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter((entry) => !/events|moments|words/.test(entry.name)).reduce((sum, entry) => sum + entry.encodedBodySize, 0) / 1024);
  const pixels = [];
  for (let change = 0; change < TIMES; change += 1) {
    pixels.push(await changeToPixel(learner, change % 2 === 0 ? "cordon" : "uncordon"));
    await learner.waitForTimeout(500);
  }
  figures.change_to_pixel_ms = spread(pixels);
  // Thirty browsers in one class.
  const began = Date.now();
  const all = await Promise.all(Array.from({ length: CONTEXTS }, async (_, number) => {
    const page = await open(browser, own);
    await joins(page, url, code, `Learner ${number}`);
    return page;
  }));
  figures.thirty_browsers_joined_s = (Date.now() - began) / 1000;
  for (const page of all) await page.context().close();

  // A slow network: 400 kbit/s, 400 ms away.
  const slow = await open(browser, own);
  await slow.context().addCookies(await learner.context().cookies());
  const network = await slow.context().newCDPSession(slow);
  await network.send("Network.enable");
  await network.send("Network.emulateNetworkConditions", { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000 });
  await slow.goto(learner.url());
  figures.slow_network_ms = (await drawn(slow, "g.pod", 1)).at;
  await slow.close();

  const instructor = await open(browser, own);
  await sends(instructor, "class", news(LEARNERS, (number) => ({
    seat: `0-${number + 1}`, lab: "scheduling", name: `Learner ${number}`, step: number % 22, step_name: "taint", done: number % 21, steps: 21,
    held: [1, 3], failing: "web: 3 running, wanted 2", since: new Date().toISOString(), stuck: number % 9 === 0, agreed: false, revoked: false,
  })));
  await instructor.goto(link);
  await instructor.waitForSelector("#rows tr");
  const loads = [];
  for (let load = 0; load < TIMES; load += 1) {
    await instructor.reload();
    loads.push(await drawn(instructor, "#rows tr", LEARNERS));
  }
  figures.instructor_1000_learners_ms = spread(loads.map(({ at }) => at));
  figures.instructor_layout_shift = Math.max(...loads.map(({ jumps }) => jumps));
  assert.equal(await instructor.locator("#rows tr").count(), LEARNERS);
  console.log(JSON.stringify(figures, null, 2));
};
