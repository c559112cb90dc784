// Drives a browser for tests/it/board/browser.rs and tests/it/host/browser.rs: `node drive.mjs SCENARIO ARGUMENT…`; ends with 1 and says why where something
// is not as it should be. Timings are printed, never judged.
import { createRequire } from "node:module";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import assert from "node:assert/strict";
import * as conditions from "./conditions.mjs";
import { classFigures } from "./figures.mjs";
import { pictures } from "./pictures.mjs";

const require = createRequire(process.env.KLAB_BROWSER + "/");
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

/** What the page wrote to its console, failed at, or asked other hosts for. */
const troubles = [];

/** A new page; `expected` are errors that the browser tells of and that are none. */
const open = async (browser, options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const isExpected = (words) => options.expected?.test(words) ?? false;
  page.on("console", (message) => message.type() === "error" && !isExpected(message.text()) && troubles.push(message.text()));
  page.on("pageerror", (error) => troubles.push(error.message));
  page.on("request", (request) => {
    const url = request.url();
    if (!/^(https?:\/\/127\.0\.0\.1:\d+\/|file:|data:)/.test(url)) troubles.push(`asked for ${url}`);
  });
  return page;
};

const kubectl = (...words) => execFileSync("kubectl", words, { encoding: "utf8" });

/** No violation of WCAG 2.2 AA, nor of what axe holds for good practice. */
const accessible = async (page, what) => {
  // Outside of the page's own world: its policy allows no script but its own.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const told = violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(" | ")}`);
  assert.deepEqual(told, [], what);
};

/** As [`accessible`], light and dark, wide and narrow; nothing is wider than the screen. */
const accessibleEverywhere = async (page, what) => {
  const before = page.viewportSize();
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const [width, height] of [[1280, 900], [360, 800]]) {
      await page.setViewportSize({ width, height });
      await accessible(page, `${what}, ${colorScheme}, ${width} wide`);
      const all = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(all <= width, `${what}, ${colorScheme}: ${all} wide on a screen of ${width}`);
      await shot(page, `${what}-${colorScheme}-${width}`);
    }
  }
  await page.emulateMedia({ colorScheme: null });
  await page.setViewportSize(before);
};

const shot = async (page, name) => {
  if (process.env.KLAB_PICTURES) await page.screenshot({ path: `${process.env.KLAB_PICTURES}/${name}.png`, fullPage: true });
};

const count = (page, selector) => page.locator(selector).count();

const scenarios = {
  classFigures: (...words) => classFigures({ open }, ...words),
  pictures: (...words) => pictures({ open, shot }, ...words),
  ...Object.fromEntries(Object.entries(conditions).map(([name, play]) => [name, (...words) => play({ open, shot, accessible }, ...words)])),

  /** A taint fills the tray, a pod says why it waits, the past can be looked at, the present comes back. */
  async changes(browser, link) {
    const page = await open(browser);
    await page.goto(link);
    await page.waitForSelector("g.pod");
    assert.equal(await count(page, ".tray"), 0);
    const before = await page.locator("#moment").getAttribute("max");
    kubectl("taint", "nodes", "-l", "agentpool=extra", "lesson=over:NoExecute");
    await page.waitForSelector(".tray g.pod");
    await page.waitForFunction(() => document.querySelector("main")?.textContent?.includes("lesson=over:NoExecute"));
    await shot(page, "tray");
    await page.locator(".tray g.pod").first().click();
    await page.waitForSelector("#details h2");
    const details = await page.locator("#details").innerText();
    assert.match(details, /lesson=over:NoExecute is not tolerated/);
    assert.match(details, /kubectl taint nodes -l agentpool=extra lesson=over:NoExecute-/);
    await shot(page, "details");
    await page.locator("#details .close").click();
    assert.equal(await page.locator("#details").isVisible(), false);

    await page.locator("g.node").last().click();
    await page.waitForFunction(() => [...document.querySelectorAll("#details h3")].some((title) => title.textContent === "On it"));
    assert.match(await page.locator("#details").innerText(), /Who may come/);

    assert.ok(Number(await page.locator("#moment").getAttribute("max")) > Number(before));
    await page.locator("#moment").focus();
    for (let at = Number(await page.locator("#moment").inputValue()); at > Number(before); at -= 1) {
      await page.keyboard.press("ArrowLeft");
    }
    await page.waitForFunction(() => !document.querySelector(".tray"));
    assert.match(await page.locator("#when").innerText(), /\d+ of \d+/);
    await page.locator("#now").click();
    await page.waitForSelector(".tray g.pod");
    assert.equal(await page.locator("#when").innerText(), "now");

    // What is pressed while everything moves is still there when it is released.
    await page.locator(".tray g.pod").first().hover();
    await page.mouse.down();
    const moment = Number(await page.locator("#moment").getAttribute("max"));
    kubectl("taint", "nodes", "-l", "agentpool=extra", "lesson-");
    await page.waitForFunction((moment) => Number(document.querySelector("#moment").max) > moment, moment);
    assert.equal(await count(page, ".tray"), 1);
    await page.mouse.up();
    await page.waitForSelector("#details h2");
    await page.waitForFunction(() => !document.querySelector(".tray"));
  },

  /** From the set-up into the first step and back to its text, by the buttons. */
  async lesson(browser, link) {
    const page = await open(browser);
    await page.goto(link);
    await page.waitForSelector("#lesson .next");
    await page.locator("#lesson .next").click();
    await page.waitForFunction(() => document.querySelector("#lesson h2")?.textContent?.startsWith("Step 1 of"));
    assert.match(await page.locator(".position").innerText(), /^Step 1 of 21: /);
    await page.locator("#lesson button[data-step]").first().click();
    await page.waitForFunction(() => !document.querySelector("#lesson h2")?.textContent?.startsWith("Step 1 of"));
    await page.locator("#lesson button[data-step=now]").click();
    await page.waitForFunction(() => document.querySelector("#lesson h2")?.textContent?.startsWith("Step 1 of"));
  },

  /** The whole page without a mouse. */
  async keyboard(browser, link) {
    const page = await open(browser);
    await page.goto(link);
    await page.waitForSelector("g.pod");
    const here = () => page.evaluate(() => document.activeElement?.getAttribute("data-name") ?? document.activeElement?.id ?? "");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    const first = await here();
    assert.notEqual(first, "");
    await page.keyboard.press("ArrowDown");
    assert.notEqual(await here(), first);
    await page.keyboard.press("ArrowRight");
    const chosen = await here();
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement?.closest("#details"));
    await page.keyboard.press("Escape");
    assert.equal(await here(), chosen);
    // One stop for the whole picture, then the time line.
    await page.keyboard.press("Tab");
    assert.equal(await here(), "play");
    await page.keyboard.press("Shift+Tab");
    assert.equal(await here(), chosen);
    // What has the focus keeps it when it is drawn anew.
    kubectl("label", "nodes", "--all", "lesson=drawn-anew");
    kubectl("cordon", "-l", "agentpool=extra");
    await page.waitForFunction(() => document.querySelector("main")?.textContent?.includes("cordoned"));
    assert.equal(await here(), chosen);
    kubectl("uncordon", "-l", "agentpool=extra");
  },

  /** axe finds nothing: light and dark, wide, narrow and large, with details, and in files. */
  async accessibility(browser, link, ...files) {
    const page = await open(browser);
    await page.goto(link);
    await page.waitForSelector("g.pod");
    kubectl("taint", "nodes", "-l", "agentpool=extra", "lesson=over:NoExecute");
    await page.waitForSelector(".tray g.pod");
    await page.locator(".tray g.pod").first().click();
    await page.waitForSelector("#details h2");
    await page.locator(".twin summary").click();
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const [width, height] of [[1280, 900], [640, 900], [360, 800]]) {
        await page.setViewportSize({ width, height });
        await accessible(page, `${colorScheme}, ${width} wide`);
        const all = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(all <= width, `${colorScheme}: ${all} wide on a screen of ${width}`);
        await shot(page, `${colorScheme}-${width}`);
      }
    }
    kubectl("taint", "nodes", "-l", "agentpool=extra", "lesson-");
    for (const file of files) {
      await page.goto(`file://${file}`);
      await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
      await accessible(page, file);
      assert.equal(await page.evaluate(() => performance.getEntriesByType("resource").length), 0, file);
      assert.ok((await count(page, ".node-box")) > 2, file);
      await shot(page, file.split("/").at(-1));
    }
  },

  /** A lab of a stranger, who writes HTML wherever there is room for words. */
  async stranger(browser, link, file) {
    const page = await open(browser);
    for (const address of [link, `file://${file}`]) {
      await page.goto(address);
      await page.waitForSelector(".node-box");
      await page.waitForTimeout(300);
      assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
      assert.equal(await count(page, "img, iframe, object, embed, a[href^='javascript']"), 0);
      assert.match(await page.locator("#lesson").innerText(), /<script>hacked=1<\/script>/);
      const scripts = await page.evaluate(() => [...document.scripts].map((script) => script.src || script.type));
      assert.ok(scripts.every((it) => it.endsWith("/board.js") || it === "application/json"), String(scripts));
    }
  },

  /** Somebody signs in at an identity provider, for the first time with the code, and again in another browser. */
  async signin(browser, url, code) {
    const own = { ignoreHTTPSErrors: true };
    const laptop = await open(browser, { ...own, expected: /status of 403/ });
    await laptop.goto(url);
    await accessibleEverywhere(laptop, "entrance-sign-in");
    // Without the code a stranger is told what to do.
    await laptop.locator("section a.next").click();
    await laptop.waitForSelector("text=says the code on the instructor's screen as well");
    await laptop.locator("a.button").click();
    await laptop.locator("section [name=code]").fill(code);
    await laptop.locator("section button[type=submit]").click();
    await laptop.waitForSelector("g.pod");
    assert.match(await laptop.locator("body").innerText(), /Seat 0-1, Ann/);
    const cookies = await laptop.context().cookies();
    assert.deepEqual(cookies.map((it) => [it.name, it.httpOnly, it.secure, it.sameSite]), [["klab-learner", true, true, "Lax"]]);

    const tablet = await open(browser, own);
    await tablet.goto(url);
    await tablet.locator("section a.next").click();
    await tablet.waitForSelector("g.pod");
    assert.match(await tablet.locator("body").innerText(), /Seat 0-1, Ann/);
    await tablet.locator("a", { hasText: "Use your own terminal" }).click();
    await tablet.waitForSelector("text=good once");
    await accessibleEverywhere(tablet, "terminal");

    // An instructor comes in from another site, and is known at once.
    const instructor = await open(browser, own);
    await instructor.goto(`${url}/teach/`);
    await instructor.locator("header a.next").click();
    await instructor.waitForSelector("#rows tr");
    assert.equal(await instructor.locator("#rows tr td").nth(1).innerText(), "Ann");
  },

  /** A class: somebody joins by the page and goes through the lesson, while the instructor looks on and helps. */
  async class(browser, url, code, link) {
    const own = { ignoreHTTPSErrors: true };
    const learner = await open(browser, { ...own, expected: /status of (403|409)/ });
    await learner.goto(url);
    await accessibleEverywhere(learner, "entrance");
    await learner.locator("[name=code]").fill("0000-0000");
    await learner.locator("[name=name]").fill("<img src=x onerror=hacked=1>");
    await learner.keyboard.press("Enter");
    await learner.waitForSelector("[role=alert]");
    assert.equal(await learner.locator("[name=name]").inputValue(), "<img src=x onerror=hacked=1>");
    await accessibleEverywhere(learner, "refused");
    await learner.locator("[name=code]").fill(code);
    await learner.locator("button[type=submit]").click();
    await learner.waitForSelector(".pin");
    assert.match(await learner.locator(".pin").innerText(), /^\d{6}$/);
    await accessibleEverywhere(learner, "welcome");
    await learner.locator("a.next").click();
    await learner.waitForSelector("g.pod");

    const instructor = await open(browser, { ...own, expected: /status of 409/ });
    await instructor.goto(link);
    await instructor.waitForSelector("#rows tr");
    assert.equal(new URL(instructor.url()).hash, "", "the link's word is not left where others see it");
    assert.equal(await instructor.locator("#rows tr td").nth(1).innerText(), "<img src=x onerror=hacked=1>");
    await instructor.locator(".codes summary").click();
    await accessibleEverywhere(instructor, "class");

    // The learner goes on, and the instructor sees it.
    await learner.locator("#lesson .next").click();
    await learner.waitForFunction(() => document.querySelector("#lesson h2")?.textContent?.startsWith("Step 1 of"));
    await instructor.waitForFunction(() => document.querySelector("#rows tr")?.cells[3].textContent?.startsWith("1 of"));
    await accessibleEverywhere(learner, "learner");

    // A word to all, and one to this learner alone, who then is brought to a step.
    await instructor.locator("#hint input").fill("look at the <b>taints</b>");
    await instructor.locator("#rows input").check();
    assert.equal(await instructor.locator("#hint-to").innerText(), "to 1 learner");
    await instructor.locator("#rows input").uncheck();
    // Over a row, its board is shown, which may lie on the button.
    await instructor.mouse.move(1, 1);
    await instructor.locator("#hint button").click();
    await learner.waitForFunction(() => document.querySelector(".word-of")?.textContent?.includes("look at the <b>taints</b>"));
    await instructor.locator("#rows button").click();
    await instructor.waitForSelector("dialog[open]");
    await accessibleEverywhere(instructor, "seat");
    await instructor.locator("#seat-hint").fill("nearly there");
    await instructor.locator("[data-seat=hint]").click();
    await learner.waitForFunction(() => document.querySelectorAll(".word-of").length === 2);
    await accessible(learner, "with words of the instructor");
    await instructor.locator("#seat-step").selectOption("2");
    await instructor.locator("[data-seat=steps]").click();
    await learner.waitForFunction(() => document.querySelector("#lesson .next")?.textContent === "Open step 3");
    await instructor.locator("#seat button[type=submit]").click();
    await instructor.locator("#names").click();
    assert.equal(await instructor.locator("#rows tr td").nth(1).isVisible(), false);

    // Who is stuck stands first, then who is furthest behind; whoever was sent away stands last.
    const long = new Date(Date.now() - 3_600_000).toISOString();
    const row = (number, name, done, more) => ({
      seat: `0-${number}`, lab: "scheduling", name, step: done + 1, step_name: "s", done, steps: 4, held: [0, 1], failing: "", since: new Date().toISOString(),
      stuck: false, agreed: false, revoked: false, ...more,
    });
    const made = [
      row(1, "ended", 0, { revoked: true, since: long }), row(2, "done", 4), row(3, "ahead", 2), row(4, "behind", 1), row(5, "stuck", 3, { since: long }),
    ];
    const news = { shard: 0, all: true, rows: made, class: { phase: "open", seats: 5, most: 9, people: 5, shards: 1, away: [] } };
    const later = { ...news, all: false, rows: [row(3, "ahead", 2, { since: long })] };
    const sent = [news, later].map((data) => `event: class\ndata: ${JSON.stringify(data)}\n\n`).join("");
    await instructor.route("**/teach/events", (route) => route.fulfill({ contentType: "text/event-stream", body: sent }));
    await instructor.goto(new URL("./", link).href);
    await instructor.waitForFunction(
      () => [...document.querySelectorAll("#rows tr")].map((line) => line.cells[1].textContent).join() === "ahead,stuck,behind,done,ended",
    );
    assert.match(await instructor.locator("#count").innerText(), /5 of 5 shown, 2 need help/);
    await instructor.locator("#show").selectOption("stuck");
    assert.equal(await instructor.locator("#rows tr:visible").count(), 2);
    await instructor.locator("#search").fill("ahead");
    assert.equal(await instructor.locator("#rows tr:visible").count(), 1);
    assert.match(await instructor.locator("#histogram").innerText(), /Steps of scheduling/);
    await instructor.unroute("**/teach/events");

    // Looking into the seat: what is there, and nothing to change it with.
    await instructor.goto(new URL("seats/0-1/", link).href);
    await instructor.waitForSelector("g.pod");
    assert.equal(await count(instructor, "[data-next], [data-post]"), 0);
    await accessibleEverywhere(instructor, "look");

    // The learner's own terminal, and the way back.
    await learner.locator("a[href$='/lines']").click();
    await learner.waitForSelector("pre");
    await accessibleEverywhere(learner, "lines");
    await learner.goBack();
    for (const page of [learner, instructor]) {
      assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
      assert.equal(await count(page, "img, iframe, object, embed"), 0);
    }
  },

  /** A class that practises: a clock, tasks between which a learner goes, and no way to copy. */
  async practice(browser, url, code, link) {
    const own = { ignoreHTTPSErrors: true, expected: /status of (409|412)/ };
    const learner = await open(browser, own);
    await learner.goto(url);
    assert.match(await learner.locator("ul").innerText(), /You have 30 minutes for 2 tasks, from when you join/);
    assert.equal(await count(learner, "[name=lab]"), 0);
    await accessibleEverywhere(learner, "practice entrance");
    await learner.locator("[name=code]").fill(code);
    await learner.locator("[name=name]").fill("Ann");
    await learner.locator("button[type=submit]").click();
    await learner.locator("a.next").click();
    await learner.waitForSelector("g.pod");
    await learner.waitForFunction(() => /^(30:00|29:\d\d) left$/.test(document.querySelector("[role=timer]")?.textContent ?? ""));
    const tasks = learner.locator(".labs");
    assert.match(await tasks.innerText(), /Solved 0 of 2/);
    assert.equal(await count(learner, "#lesson .type, [data-post=perform], #checks [data-copy]"), 0);
    await learner.locator("#lesson .next").click();
    await learner.waitForSelector(".refused, [role=alert]:not(:empty), #said:not(:empty)");
    await accessibleEverywhere(learner, "practice");

    // What is done with kubectl is graded when the learner says so.
    const seat = await (await learner.request.get(new URL("kubeconfig", learner.url()).href)).text();
    const file = `${process.env.KLAB_SCRATCH}/seat.yaml`;
    writeFileSync(file, seat);
    kubectl("--kubeconfig", file, "uncordon", "rack-b");
    kubectl("--kubeconfig", file, "delete", "pods", "-l", "app=catalog");
    await learner.locator("#lesson .next").click();
    await learner.waitForFunction(() => document.querySelector(".labs")?.textContent?.includes("Solved 1 of 2"));
    await learner.locator(".labs .next").click();
    await learner.waitForURL(/customers-go-first/);
    await learner.waitForSelector("g.pod");
    assert.equal(await tasks.locator(".is-done").count(), 1);
    assert.match(await tasks.locator("[aria-current]").innerText(), /A full node/);
    await accessibleEverywhere(learner, "second task");
    await learner.locator(".labs ol button").click();
    await learner.waitForURL(/uncordon-the-right-node/);
    await learner.locator("[data-step='0']").click();
    await learner.waitForSelector("#lesson .type");

    const instructor = await open(browser, own);
    await instructor.goto(link);
    await instructor.waitForFunction(() => document.querySelectorAll("#rows tr").length === 2);
    assert.deepEqual(await instructor.locator("#rows td:nth-child(2)").allInnerTexts(), ["Ann (1 of 2)", "Ann (1 of 2)"]);
    assert.deepEqual((await instructor.locator("#rows td:nth-child(4)").allInnerTexts()).sort(), ["not solved", "solved"]);
    assert.match(await instructor.locator("#histogram").innerText(), /Learners by tasks solved/);
    await accessibleEverywhere(instructor, "practice class");
  },

  /** A learner's console, by keyboard. */
  async console(browser, url, code, link) {
    const page = await open(browser, { ignoreHTTPSErrors: true });
    await page.goto(url);
    await page.locator("[name=code]").fill(code);
    await page.locator("[name=name]").fill("Ann");
    await page.locator("[name=pin]").fill("2468");
    // What can be completed comes when the line is typed already, as to whoever types fast.
    let typed = () => {};
    const isTyped = new Promise((resolve) => { typed = resolve; });
    await page.route("**/console/words", async (route) => { await isTyped; await route.continue(); });
    await page.keyboard.press("Enter");
    await page.waitForSelector("#console-line");
    const screen = (words) => page.waitForFunction((words) => document.querySelector("#console-screen")?.textContent?.includes(words), words);
    await page.locator("#console-line").focus();
    await page.keyboard.type("kubectl get no");
    typed();
    await page.waitForSelector("#console-offers li");
    await accessibleEverywhere(page, "completions");
    await page.keyboard.press("Tab");
    await page.keyboard.type("-o name");
    await page.keyboard.press("Enter");
    await screen("node/aks-");
    // One command at a time.
    await page.waitForSelector("#console-end", { state: "hidden" });
    await page.keyboard.type("kubectl get pods | sh");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#console-screen .note");
    await page.waitForSelector("#console-end", { state: "hidden" });
    // What the lesson shows is put into the line by a click, and run by a second.
    await page.locator("#lesson .put").first().click();
    assert.match(await page.locator("#console-line").inputValue(), /^kubectl get nodes/);
    await page.locator("#lesson .put").first().click();
    await screen("agentpool");
    await page.waitForSelector("#console-end", { state: "hidden" });
    // An object in the editor: what changes is shown before it is applied.
    await page.locator("#console-line").fill("kubectl edit -n default deployment/nanomon-api");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#edit[open]");
    assert.equal(await page.locator("#edit-apply").isDisabled(), true);
    const text = await page.locator("#edit-text").inputValue();
    await page.locator("#edit-text").fill(text.replace("replicas: 2", "replicas: 3"));
    assert.equal(await page.locator("#edit-difference").innerText(), "-   replicas: 2\n+   replicas: 3");
    // The schema of what the caret stands at: a field and what it is for, names that a misspelled one may mean, and what is in a map.
    const hinted = async (words, wanted) => {
      await page.locator("#edit-text").evaluate((text, words) => {
        const at = text.value.indexOf(words) + words.length;
        text.setSelectionRange(at, at);
      }, words);
      await page.waitForFunction((wanted) => new RegExp(wanted).test(document.querySelector("#edit-hint").textContent), wanted);
    };
    await hinted("replicas: 3", "^spec.replicas <integer>: Number of desired pods");
    await hinted(" image: ", "^spec.template.spec.containers.image <string>: Container image name");
    await hinted("workload: extra", "^spec.template.spec.nodeSelector <map\\[string\\]string>: NodeSelector is a selector");
    await page.locator("#edit-text").fill(text.replace("replicas: 2", "replicas: 2\n  selekt"));
    await hinted("selekt", "^spec has: minReadySeconds, paused");
    await page.locator("#edit-text").fill(text.replace("replicas: 2", "replicas: 2\n  SELECT"));
    await hinted("SELECT", "^spec has: selector$");
    await page.locator("#edit-text").fill(text.replace("replicas: 2", "replicas: 3"));
    await accessibleEverywhere(page, "edit");
    await page.locator("#edit-apply").click();
    await screen("deployment.apps/nanomon-api replaced");
    await page.waitForSelector("#console-end", { state: "hidden" });
    await page.locator("#console-editor summary").click();
    await page.locator("#console-new").click();
    await page.locator("#console-name").fill("map.yaml");
    await page.keyboard.press("Enter");
    await page.locator("#console-text").fill("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: typed}\n");
    await page.locator("#console-apply").click();
    await screen("configmap/typed created");
    await accessibleEverywhere(page, "console");
    // In a class that is closed nothing is applied: the button says so before anybody tries.
    assert.equal(await page.locator("#console-closed").isVisible(), false);
    const instructor = await open(browser, { ignoreHTTPSErrors: true });
    await instructor.goto(link);
    await instructor.waitForSelector("#rows tr");
    await instructor.locator("#end").click();
    await accessible(instructor, "closing");
    await instructor.locator("#closing [data-act=close]").click();
    await page.waitForSelector("#console-closed", { state: "visible" });
    assert.equal(await page.locator("#console-apply").isDisabled(), true);
    await accessibleEverywhere(page, "console of a closed class");
    await page.reload();
    await page.waitForSelector("#console-apply:disabled", { state: "attached" });
  },

  /** Every step of lessons (`NAME=STEPS`), some at a time, each at a seat of its own, with a browser alone: what the guide shows is put into the console and run. */
  async lessons(browser, url, code, link, atATime, ...labs) {
    const learner = async (it) => {
      const [lab, steps] = it.split("=");
      const page = await open(browser, { ignoreHTTPSErrors: true, reducedMotion: "reduce", expected: /status of (409|412)/ });
      page.setDefaultTimeout(180_000);
      await page.goto(url);
      await page.locator("[name=code]").fill(code);
      await page.locator("[name=name]").fill(`Ann in ${lab}`);
      await page.locator("[name=lab]").selectOption(lab);
      await page.locator("button[type=submit]").click();
      await page.locator("a.next").click();
      await page.waitForSelector("#console-line");
      const isAt = (title) => page.waitForFunction((title) => document.querySelector("#lesson h2")?.textContent?.startsWith(title), title);
      const next = async (title) => {
        // The page waits for ten seconds, and an autoscaler that removes a node for longer.
        for (const until = Date.now() + 240_000; Date.now() < until; ) {
          // A click can be lost where the page moves between press and release: a learner clicks again.
          const answered = page.waitForResponse((answer) => answer.url().endsWith("/next"), { timeout: 60_000 }).catch(() => null);
          await page.locator("#lesson .next").click();
          const answer = await answered;
          if (!answer) {
            said.push("no answer in a minute");
            continue;
          }
          if (answer.ok()) return title ? isAt(title) : page.waitForSelector("#lesson a[href=summary]");
          said.push(await answer.text());
        }
        throw new Error(`${lab}: ${said.join("\n")}\n${await page.locator("#console-screen").innerText()}`);
      };
      let said = [];
      for (let step = 1; step <= Number(steps); step += 1) {
        await next(`Step ${step} of ${steps}`);
        said = [`step ${step}`];
        // Of a change that can also be made in an editor, the line is typed.
        const puts = page.locator("#lesson .type .put:not([data-put^='kubectl edit '])");
        const lines = await puts.evaluateAll((all) => all.map((put) => put.dataset.put));
        for (const [number, line] of lines.entries()) {
          await puts.nth(number).click();
          assert.equal((await page.locator("#console-line").inputValue()).trim(), line);
          await puts.nth(number).click();
          await page.waitForFunction((line) => document.querySelector("#console-end")?.hidden
            && document.querySelector("#console-screen .entry:last-child .typed")?.textContent === `$ ${line}`, line);
        }
        // Some steps are about what the cluster refuses; the console itself refuses nothing that the guide shows.
        const refused = await page.locator("#console-screen .entry[data-failed]").allInnerTexts();
        assert.deepEqual(refused.filter((entry) => !entry.includes("exit code")), [], lab);
      }
      await next();
      await page.close();
    };
    const learners = async () => {
      for (let it = labs.pop(); it; it = labs.pop()) await learner(it);
    };
    await Promise.all(Array.from({ length: Number(atATime) }, learners));
  },

  /** How long things take: printed, for `cargo bench --bench board`. */
  async figures(browser, link, taint, back) {
    const page = await open(browser);
    // The whole picture is there, and drawn, in the second frame after the page was loaded.
    await page.addInitScript(() => addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(() => {
      globalThis.drawnAt = performance.now();
    }))));
    await page.goto(link);
    await page.waitForFunction(() => globalThis.drawnAt);
    const times = { first_picture_ms: await page.evaluate(() => globalThis.drawnAt) };
    times.bytes = await page.evaluate(() => performance.getEntriesByType("navigation")[0].decodedBodySize
      + performance.getEntriesByType("resource").reduce((sum, entry) => sum + entry.decodedBodySize, 0));
    // Frames while pods move, and when the page showed what changed.
    await page.evaluate(() => {
      globalThis.frames = [];
      const frame = (at) => { globalThis.frames.push(at); requestAnimationFrame(frame); };
      requestAnimationFrame(frame);
      new MutationObserver(() => requestAnimationFrame(() => { globalThis.changedAt ??= Date.now(); }))
        .observe(document.querySelector("[data-part=pools]"), { childList: true, subtree: true });
    });
    if (taint) {
      kubectl(...taint.split(" "));
      const done = Date.now();
      await page.waitForFunction(() => globalThis.changedAt);
      times.change_to_pixel_after_kubectl_ms = Math.max(0, (await page.evaluate(() => globalThis.changedAt)) - done);
      const from = await page.evaluate(() => performance.now());
      await page.waitForTimeout(1500);
      const frames = (await page.evaluate(() => globalThis.frames)).filter((at) => at > from);
      times.frames_per_second = (frames.length - 1) / ((frames.at(-1) - frames[0]) / 1000);
      if (back) kubectl(...back.split(" "));
    }
    console.log(JSON.stringify(times));
  },
};

const [name, ...words] = process.argv.slice(2);
const browser = await chromium.launch({ timeout: 120_000, executablePath: process.env.KLAB_CHROMIUM ?? "/usr/bin/chromium", args: QUIET });
try {
  await scenarios[name](browser, ...words);
  assert.deepEqual(troubles, []);
} catch (error) {
  console.error(error.stack);
  if (troubles.length) console.error(troubles.join("\n"));
  if (process.env.KLAB_PICTURES) writeFileSync(`${process.env.KLAB_PICTURES}/${name}.txt`, String(error.stack));
  process.exitCode = 1;
} finally {
  await browser.close();
}
