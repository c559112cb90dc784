// Pages as people use them.
import assert from "node:assert/strict";
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
