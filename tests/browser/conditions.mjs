// Pages as people use them: enlarged, by keyboard alone, with a pointer that only rests, over a connection that breaks, and open for a night.
import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import { joins } from "./figures.mjs";

const OWN = { ignoreHTTPSErrors: true };

/** What a host answers an instructor's page of these seats: a stream that ends, and that the browser asks for again. */
const stream = (rows, more = {}) => {
  const facts = { phase: "open", seats: rows.length, most: 30, people: rows.length, shards: 1, away: [], ...more };
  return `event: class\ndata: ${JSON.stringify({ shard: 0, all: true, rows, class: facts })}\n\n`;
};

const row = (number, more = {}) => ({
  seat: `0-${number}`, lab: "scheduling", name: `Learner ${number}`, step: 1, step_name: "taint", done: 0, steps: 21, held: [1, 3], failing: "",
  since: new Date().toISOString(), stuck: false, agreed: false, revoked: false, ...more,
});

const instructs = async (open, browser, link, options = {}) => {
  const page = await open(browser, { ...OWN, ...options });
  await page.goto(link);
  await page.waitForSelector("#rows tr");
  return page;
};

/** As the console of a learner's page does it. */
const typed = (page, line) => page.evaluate(async (line) => {
  const answer = await fetch("console/run", {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ line, files: {} }),
  });
  return answer.text();
}, line);

// ---- a pointer that rests

/** The small board is shown, beside its row, not on it, and within the window. */
const isBeside = async (page, selector) => {
  await page.waitForSelector("#peek .node-box, #peek #peek-words");
  await page.waitForFunction((selector) => {
    const [board, row] = ["#peek", selector].map((it) => document.querySelector(it).getBoundingClientRect());
    const { clientWidth, clientHeight } = document.documentElement;
    const isOutside = board.left < 0 || board.top < 0 || board.right > clientWidth || board.bottom > clientHeight;
    const isOn = board.left < row.right && row.left < board.right && board.top < row.bottom && row.top < board.bottom;
    return board.width > 100 && board.height > 50 && !isOutside && !isOn;
  }, selector, { timeout: 10_000 });
};

/** A small board stands beside the row where the pointer rests, or the keyboard is. */
export const rests = async ({ open, shot, accessible }, browser, url, code, link) => {
  const learner = await open(browser, OWN);
  await joins(learner, url, code, "Ann");
  const page = await instructs(open, browser, link, { expected: /status of (429|503)/ });
  const asked = [];
  page.on("request", (request) => request.url().endsWith("/picture") && asked.push(Date.now()));
  const away = () => page.mouse.move(5, 5);
  const rest = () => page.locator("#rows tr td").nth(1).hover();
  const gone = () => page.waitForSelector("#peek", { state: "hidden" });
  assert.equal(await page.locator("#peek").isVisible(), false);
  await rest();
  await isBeside(page, "#rows tr");
  assert.equal(asked.length, 1, "a board is asked for when somebody rests on its row");
  assert.ok((await page.locator("#peek .node-box").count()) > 2);
  assert.match(await page.locator("#peek").innerText(), /Seat 0-1, Ann\s+3 nodes, \d+ pods/);
  assert.equal(await page.locator("[data-open]").getAttribute("aria-describedby"), "peek-words");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `small board, ${colorScheme}`);
    await shot(page, `small-board-${colorScheme}`);
  }
  // The pointer may go onto it; it goes when the pointer leaves, on Escape, and on scrolling.
  await page.locator("#peek h2").hover();
  await page.waitForTimeout(600);
  assert.ok(await page.locator("#peek").isVisible(), "the board stays under the pointer");
  await away();
  await gone();
  await rest();
  await page.waitForSelector("#peek", { state: "visible" });
  await page.keyboard.press("Escape");
  await gone();
  await page.mouse.move(400, 300);
  await rest();
  await page.waitForTimeout(600);
  assert.equal(await page.locator("#peek").isVisible(), false, "what was sent away does not come back by itself");
  await away();
  await page.waitForTimeout(400);
  await rest();
  await page.waitForSelector("#peek", { state: "visible" });
  // What changes is shown, and not asked for more often than once in two seconds.
  for (const verb of ["cordon", "uncordon", "cordon"]) {
    await typed(learner, `kubectl ${verb} -l agentpool=extra`);
    await page.waitForFunction((is) => document.querySelector("#peek")?.textContent?.includes("cordoned") === is, verb === "cordon");
  }
  assert.ok(asked.length > 3, String(asked));
  const between = asked.slice(1).map((at, number) => at - asked[number]);
  assert.ok(between.every((time) => time > 1900), String(between));
  // Small screens have no room beside a row.
  for (const [width, height] of [[360, 800], [640, 400], [360, 400]]) {
    await away();
    await gone();
    await page.setViewportSize({ width, height });
    await rest();
    await isBeside(page, "#rows tr");
    if (height > 400) await accessible(page, `small board, ${width} wide`);
    if (process.env.KLAB_PICTURES) await page.screenshot({ path: `${process.env.KLAB_PICTURES}/small-board-${width}-${height}.png` });
  }
  await page.mouse.wheel(0, 60);
  await gone();
  await page.setViewportSize({ width: 1280, height: 900 });
  await away();
  await gone();
  // The keyboard shows it, too.
  await page.locator("#names").focus();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.dataset.open), "0-1");
  await isBeside(page, "#rows tr");
  await page.keyboard.press("Escape");
  await gone();
  assert.equal(await page.evaluate(() => document.activeElement?.dataset.open), "0-1");
  // Words in place of a board; nothing is asked for where there is none.
  let facts = {};
  let rows = [];
  await page.route("**/teach/events", (route) => route.fulfill({ contentType: "text/event-stream", body: stream(rows, facts) }));
  for (const [made, more, words] of [
    [[row(1, { revoked: true })], {}, "The seat is ended"], [[row(1)], { shards: 2, away: [0] }, "Its shard is away"],
  ]) {
    [rows, facts] = [made, more];
    await page.reload();
    await page.waitForSelector("#rows tr");
    const before = asked.length;
    await away();
    await rest();
    await page.waitForFunction((words) => document.querySelector("#peek:not([hidden])")?.textContent?.includes(words), words);
    await isBeside(page, "#rows tr");
    assert.equal(asked.length, before);
  }
  [rows, facts] = [[row(1)], {}];
  const busy = { status: 429, contentType: "application/json", body: JSON.stringify({ message: "wait a moment" }) };
  await page.route("**/picture", (route) => route.fulfill(busy), { times: 1 });
  await page.reload();
  await page.waitForSelector("#rows tr");
  await away();
  await rest();
  await page.waitForFunction(() => document.querySelector("#peek:not([hidden])")?.textContent?.includes("wait a moment"));
  await page.waitForSelector("#peek .node-box");
};

// ---- enlarged

/** Every page at 200 %: nothing is wider than the screen, and what is to be pressed next can be reached and pressed. */
export const enlarged = async ({ open, shot }, browser, url, code, link, board, ...files) => {
  const zoomed = { ...OWN, viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 };
  const fits = async (page, name, primary) => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 640, `${name}: ${wide} wide on a screen of 640`);
    await shot(page, `enlarged-${name}`);
    if (!primary) return;
    // What lives may be drawn again meanwhile: the button that is there then is looked for.
    const isReached = page.waitForFunction((primary) => {
      const button = [...document.querySelectorAll(primary)].find((it) => it.checkVisibility());
      button?.scrollIntoView({ block: "center" });
      const { left, right, top, bottom } = button?.getBoundingClientRect() ?? new DOMRect(-1, -1);
      const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
      return left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight && button.contains(hit);
    }, primary, { timeout: 10_000 });
    await isReached.catch(() => assert.fail(`${name}: ${primary} is not reached`));
  };
  const learner = await open(browser, zoomed);
  await learner.goto(url);
  await fits(learner, "entrance", ".primary");
  await learner.locator("[name=code]").fill(code);
  await learner.locator("[name=name]").fill("Ann");
  await learner.locator("button[type=submit]").click();
  await learner.waitForSelector(".pin");
  await fits(learner, "welcome", ".primary");
  await learner.locator("a.next").click();
  await learner.waitForSelector("g.pod");
  await fits(learner, "introduction", "#lesson .primary");
  await learner.locator("#lesson .next").click();
  await learner.waitForFunction(() => document.querySelector("#lesson h2")?.textContent?.startsWith("Step 1 of"));
  await learner.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
  await fits(learner, "seat", "#lesson .primary");
  await learner.locator("g.pod").first().click();
  await learner.waitForSelector("#details h2");
  await fits(learner, "pod");
  const summary = await (await learner.request.get(new URL("summary", learner.url()).href)).text();
  await learner.goto(new URL("lines", learner.url()).href);
  await fits(learner, "lines");

  const instructor = await instructs(open, browser, link, zoomed);
  await instructor.locator(".codes summary").click();
  await fits(instructor, "class", "#hint .primary");
  await instructor.locator("[data-open]").click();
  await fits(instructor, "seat-dialog", "#seat .primary");
  await instructor.keyboard.press("Escape");
  await instructor.locator("#end").click();
  await fits(instructor, "closing", "#closing .danger");
  await instructor.goto(new URL("seats/0-1/", link).href);
  await instructor.waitForSelector("g.pod");
  await fits(instructor, "look");

  const page = await open(browser, zoomed);
  await page.goto(board);
  await page.waitForSelector("g.pod");
  await fits(page, "board", "#lesson .primary");
  const unfolded = async (name) => {
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
    await fits(page, name);
  };
  for (const [name, path] of files.map((file) => file.split("="))) {
    await page.goto(`file://${path}`);
    await unfolded(name);
  }
  await page.goto("about:blank");
  await page.setContent(summary);
  await unfolded("summary");
};

// ---- the keyboard alone

/** Presses Tab until the page has been gone through, or `until` has the focus: each stop is seen, and on the screen. Gives the stops. */
const tabs = async (page, until, key = "Tab") => {
  const stops = [];
  await page.evaluate(() => { globalThis.visited = new WeakSet(); });
  while (stops.length < 300) {
    await page.keyboard.press(key);
    const stop = await page.evaluate((until) => {
      const here = document.activeElement;
      if (!here || here === document.body || globalThis.visited.has(here)) return null;
      globalThis.visited.add(here);
      const { left, right, top, bottom } = here.getBoundingClientRect();
      const hit = document.elementFromPoint((Math.max(0, left) + Math.min(innerWidth, right)) / 2, (Math.max(0, top) + Math.min(innerHeight, bottom)) / 2);
      const style = getComputedStyle(here.matches("g.pod") ? here.querySelector("rect") : here);
      const isMarked = here.matches("g.pod") ? style.strokeWidth === "4px" : here.matches("g.node") || (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2);
      return {
        name: here.id || here.dataset.put || here.dataset.open || here.className || here.outerHTML.slice(0, 80),
        isSeen: here.contains(hit), isMarked, isThere: until ? here.matches(until) : false, html: here.outerHTML.slice(0, 200),
      };
    }, until);
    if (!stop) break;
    assert.ok(stop.isMarked, `the focus is not seen: ${stop.html}`);
    assert.ok(stop.isSeen, `the focus is not on the screen: ${stop.html}`);
    stops.push(stop.name);
    if (stop.isThere) return stops;
  }
  assert.ok(stops.length < 300, "Tab comes to no end");
  assert.ok(!until, `Tab does not lead to ${until}: ${stops.join(", ")}`);
  return stops;
};

/** As on a page that has just been loaded. */
const fromTheTop = (page) => page.evaluate(() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
});

/** A learner and an instructor without a mouse. */
export const byKeyboard = async ({ open }, browser, url, code, link) => {
  const learner = await open(browser, OWN);
  await learner.goto(url);
  assert.equal(await learner.evaluate(() => document.activeElement?.name), "code");
  await learner.keyboard.type(code);
  await tabs(learner, "[name=name]");
  await learner.keyboard.type("Ann");
  await learner.keyboard.press("Enter");
  await learner.waitForSelector(".pin");
  await tabs(learner, "a.next");
  await learner.keyboard.press("Enter");
  await learner.waitForSelector("#console-line");
  await learner.waitForSelector("g.pod");
  await tabs(learner, "#lesson .next");
  await learner.keyboard.press("Enter");
  await learner.waitForFunction(() => document.querySelector("#lesson h2")?.textContent?.startsWith("Step 1 of"));
  // From where the focus is, the first command is put into the console, and run.
  await tabs(learner, "#lesson .put");
  await learner.keyboard.press("Enter");
  await learner.waitForFunction(() => document.querySelector("#console-line")?.value !== "");
  await tabs(learner, "#console-run");
  await learner.keyboard.press("Enter");
  await learner.waitForSelector("#console-screen .output");
  await learner.waitForSelector("#console-end", { state: "hidden" });
  // All of it is gone through, there and back: nothing holds the focus.
  await fromTheTop(learner);
  const there = await tabs(learner);
  for (const name of ["console-line", "console-run", "moment", "play"]) assert.ok(there.includes(name), `${name} is not among ${there.join(", ")}`);
  assert.ok(there.length > 12 && there.some((name) => /pod|node/.test(name)), there.join(", "));
  const back = await tabs(learner, undefined, "Shift+Tab");
  assert.ok(back.length >= there.length - 1, `${there.join(", ")}\nand back: ${back.join(", ")}`);
  // What completes a line and what writes blanks let go after Escape.
  await learner.locator("#console-line").focus();
  await learner.keyboard.type("kubectl get no");
  await learner.waitForSelector("#console-offers li");
  await learner.keyboard.press("Escape");
  await learner.keyboard.press("Tab");
  assert.equal(await learner.evaluate(() => document.activeElement?.id), "console-run");
  await tabs(learner, "#console-editor summary");
  await learner.keyboard.press("Enter");
  await tabs(learner, "#console-new");
  await learner.keyboard.press("Enter");
  await learner.keyboard.press("Enter");
  await learner.waitForFunction(() => document.activeElement?.id === "console-text");
  await learner.keyboard.press("Tab");
  assert.equal(await learner.locator("#console-text").inputValue(), "  ");
  await learner.keyboard.press("Escape");
  await learner.keyboard.press("Tab");
  assert.notEqual(await learner.evaluate(() => document.activeElement?.id), "console-text");

  const instructor = await instructs(open, browser, link);
  const all = await tabs(instructor);
  for (const name of ["search", "show", "names", "0-1", "copy-code", "end"]) assert.ok(all.includes(name), `${name} is not among ${all.join(", ")}`);
  await fromTheTop(instructor);
  await tabs(instructor, "[data-open]");
  await instructor.waitForSelector("#peek", { state: "visible" });
  await instructor.keyboard.press("Enter");
  await instructor.waitForSelector("#seat[open]");
  assert.equal(await instructor.locator("#peek").isVisible(), false);
  const inside = await tabs(instructor);
  assert.ok(inside.includes("seat-step") && !inside.includes("search"), inside.join(", "));
  await instructor.keyboard.press("Escape");
  await instructor.waitForSelector("#seat", { state: "hidden" });
  assert.equal(await instructor.evaluate(() => document.activeElement?.dataset.open), "0-1");
};

// ---- a connection that breaks

/** A way to a class that can be cut. */
const cable = async (url) => {
  const { hostname, port } = new URL(url);
  const ends = new Set();
  let isCut = false;
  const server = createServer((near) => {
    if (isCut) return near.destroy();
    const far = connect(Number(port), hostname);
    for (const [from, to] of [[near, far], [far, near]]) {
      ends.add(from);
      from.on("error", () => {}).on("close", () => { ends.delete(from); to.destroy(); }).pipe(to);
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  server.unref();
  return {
    /** An address of the class, by this way. */
    to: (address) => Object.assign(new URL(address), { port: server.address().port }).href,
    cut: (is) => {
      isCut = is;
      if (is) for (const end of ends) end.destroy();
    },
  };
};

/** Both pages say that they are cut off, and show what happened meanwhile without being loaded again; and that a seat is ended. */
export const cutOff = async ({ open }, browser, url, code, link) => {
  const lost = { expected: /net::ERR_|status of (401|502)/ };
  const [ofLearner, ofInstructor] = [await cable(url), await cable(url)];
  const learner = await open(browser, { ...OWN, ...lost });
  await joins(learner, ofLearner.to(url), code, "Ann");
  const instructor = await instructs(open, browser, ofInstructor.to(link), lost);
  for (const page of [learner, instructor]) await page.evaluate(() => { globalThis.isSame = true; });
  const says = (page, words) => page.waitForFunction((words) => [...document.querySelectorAll(".silence")].some((it) => it.textContent.includes(words)), words);
  const isBack = async (page) => {
    await page.waitForFunction(() => ![...document.querySelectorAll(".silence")].some((it) => it.textContent.includes("not answer")));
    assert.ok(await page.evaluate(() => globalThis.isSame), "it was loaded again");
  };
  const moments = () => learner.evaluate(() => Number(document.querySelector("#moment").max));

  // The learner's page: a hint, and a step that the instructor brings it to.
  const before = await moments();
  ofLearner.cut(true);
  await says(learner, "does not answer");
  await instructor.locator("#hint input").fill("come back");
  await instructor.locator("#hint button").click();
  await instructor.locator("[data-open]").click();
  await instructor.locator("#seat-step").selectOption("2");
  await instructor.locator("[data-seat=steps]").click();
  await instructor.waitForFunction(() => /^[23] of/.test(document.querySelector("#rows tr")?.cells[3].textContent ?? ""));
  await instructor.keyboard.press("Escape");
  ofLearner.cut(false);
  await learner.waitForFunction(() => document.querySelector(".word-of")?.textContent?.includes("come back"));
  await learner.waitForFunction(() => document.querySelector("#lesson .next")?.textContent === "Open step 3");
  await isBack(learner);
  assert.ok((await moments()) > before);

  // The instructor's page: a learner goes on. What is ticked stays ticked, and what has the focus keeps it.
  await instructor.locator("#rows input").check();
  await instructor.locator("[data-open]").focus();
  ofInstructor.cut(true);
  await says(instructor, "does not answer");
  await learner.locator("#lesson .next").click();
  await learner.waitForFunction(() => document.querySelector("#lesson h2")?.textContent?.startsWith("Step 3 of"));
  await typed(learner, "kubectl scale deployment plain --replicas 4");
  ofInstructor.cut(false);
  await isBack(instructor);
  await instructor.waitForFunction(() => document.querySelector("#rows tr")?.cells[3].textContent?.startsWith("3 of"));
  assert.ok(await instructor.locator("#rows input").isChecked());
  assert.equal(await instructor.evaluate(() => document.activeElement?.dataset.open), "0-1");

  // A proxy that answers without its host: no browser tries that again by itself.
  for (const [page, way, path] of [[learner, ofLearner, "**/events?*"], [instructor, ofInstructor, "**/teach/events"]]) {
    let refused = 0;
    await page.route(path, (route) => { refused += 1; return route.fulfill({ status: 502, body: "Bad Gateway" }); });
    way.cut(true);
    await says(page, "does not answer");
    way.cut(false);
    for (const until = Date.now() + 20_000; refused === 0 && Date.now() < until; ) await page.waitForTimeout(50);
    assert.ok(refused > 0);
    await page.unroute(path);
    await isBack(page);
  }
  await instructor.locator("#hint input").fill("here again");
  await instructor.locator("#hint button").click();
  await learner.waitForFunction(() => document.querySelector(".class-bar")?.textContent?.includes("here again"));

  // The instructor ends the seat: the page says so, at once and to one that slept.
  const [asleep, ofAsleep] = [await open(browser, { ...OWN, ...lost }), await cable(url)];
  await asleep.context().addCookies(await learner.context().cookies());
  await asleep.goto(ofAsleep.to(learner.url()));
  await asleep.waitForSelector("g.pod");
  ofAsleep.cut(true);
  await says(asleep, "does not answer");
  await instructor.locator("[data-open]").click();
  instructor.on("dialog", (dialog) => dialog.accept());
  await instructor.locator("#revoke").click();
  await says(learner, "the instructor has ended your seat");
  ofAsleep.cut(false);
  await says(asleep, "not known here any more");
};

// ---- a night

/** What a page holds, after the browser has thrown away what it needs no more. */
const held = async (page) => {
  const tools = await page.context().newCDPSession(page);
  await tools.send("Performance.enable");
  await tools.send("HeapProfiler.collectGarbage");
  const { metrics } = await tools.send("Performance.getMetrics");
  const of = (name) => metrics.find((metric) => metric.name === name).value;
  await tools.detach();
  return { nodes: of("Nodes"), listeners: of("JSEventListeners"), heap: of("JSHeapUsedSize") };
};

const grows = (what, before, after) => {
  console.log(JSON.stringify({ what, before, after }));
  assert.ok(after.nodes <= before.nodes * 1.05 + 50, `${what}: ${before.nodes} nodes became ${after.nodes}`);
  assert.ok(after.listeners <= before.listeners + 10, `${what}: ${before.listeners} listeners became ${after.listeners}`);
  assert.ok(after.heap <= before.heap + 1_000_000, `${what}: ${before.heap} bytes became ${after.heap}`);
};

/** Thousands of changes: the pages do not grow, and whose they are is known for weeks. */
export const overnight = async ({ open }, browser, url, code, link) => {
  const own = { ...OWN, reducedMotion: "reduce" };
  const stub = () => {
    globalThis.EventSource = class extends EventTarget {
      constructor() {
        super();
        globalThis.stream = this;
      }
    };
  };
  const learner = await open(browser, own);
  await joins(learner, url, code, "Ann");
  const [cookie] = await learner.context().cookies();
  assert.ok(cookie.expires - Date.now() / 1000 > 30 * 24 * 3600, String(cookie.expires));
  await learner.addInitScript(stub);
  await learner.reload();
  await learner.waitForSelector("g.pod");
  /** Every part of the page becomes another, some at a time, and pods move. */
  const change = (from, many) => learner.evaluate(async ([from, many]) => {
    const { parts, number } = await (await fetch("at?moment=9007199254740991")).json();
    const names = Object.keys(parts);
    const run = document.body.dataset.run;
    const pods = [...document.querySelectorAll("g.pod")].map((pod) => pod.dataset.name);
    for (let at = from; at < from + many; at += 1) {
      const changed = [0, 1, 2].map((more) => names[(at * 3 + more) % names.length]);
      const data = {
        number: number + at, at: Date.now(), gone: [], moves: [{ left: pods[at % pods.length], came: pods[(at + 1) % pods.length], from: null, to: null }],
        parts: Object.fromEntries(changed.map((name) => [name, name === "silence" ? "" : `${parts[name]}<i hidden>${at}</i>`])),
      };
      globalThis.stream.dispatchEvent(new MessageEvent("change", { data: JSON.stringify(data), lastEventId: `${run}-${data.number}` }));
      if (at % 100 === 0) await new Promise(requestAnimationFrame);
    }
  }, [from, many]);
  await change(1, 5100);
  assert.equal(await learner.locator("#moment").getAttribute("max"), "4999");
  const evening = await held(learner);
  await change(5101, 3000);
  assert.equal(await learner.locator("#moment").getAttribute("max"), "4999", "moments are bounded");
  grows("the learner's page", evening, await held(learner));

  const instructor = await open(browser, own);
  await instructor.addInitScript(stub);
  await instructor.goto(link);
  await instructor.waitForSelector("#facts");
  await instructor.waitForFunction(() => globalThis.stream && document.body.dataset.known === "true");
  const news = (from, many) => instructor.evaluate(async ([from, many]) => {
    const row = (number, at) => ({
      seat: `0-${number + 1}`, lab: "scheduling", name: `Learner ${number}`, step: at % 22, step_name: "taint", done: at % 21, steps: 21, held: [at % 3, 3],
      failing: `web: ${at} running`, since: new Date().toISOString(), stuck: false, agreed: false, revoked: at % 50 === 0,
    });
    for (let at = from; at < from + many; at += 1) {
      // Now and then the stream has been broken, and all comes again.
      const all = at % 100 === 0;
      const rows = all ? Array.from({ length: 30 }, (_, number) => row(number, at)) : [row(at % 30, at)];
      const facts = { phase: "open", seats: 30, most: 30, people: 30, shards: 1, away: [], code: "1234-5678", codes: [{ of: "class", name: "a", used: at, number: 1 }] };
      globalThis.stream.dispatchEvent(new MessageEvent("class", { data: JSON.stringify({ shard: 0, all, rows, class: facts }) }));
      if (all) await new Promise(requestAnimationFrame);
    }
  }, [from, many]);
  await news(0, 500);
  assert.equal(await instructor.locator("#rows tr").count(), 30);
  const first = await held(instructor);
  await news(500, 3000);
  assert.equal(await instructor.locator("#rows tr").count(), 30);
  grows("the instructor's page", first, await held(instructor));
};
