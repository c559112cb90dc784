// Every page in four widths, light and dark, compared with what it looked like before: `tests/browser/pictures/PAGE.png` has the lightness of
// its squares. Each letter is drawn as the same bar, so that neither fonts nor names nor times change a picture. `KLAB_BLESS=1` writes them.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";

const FOLDER = new URL("pictures/", import.meta.url).pathname;
const BARS = "d09GMgABAAAAAAFAAAoAAAAAFsQAAAD3AAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAABmAAqHwKOEIBNgIkAwgLCAAEIAVXByAbFhYQHgd2w1fDkkjBlpPRt3j45169b2R2TfyUgPSUMgBbgRJM4xJVfAFuPRmTmxCFJhhBYkJu1y9fkNSmnWkPRgF2AXc5RdEnVFh7xPebDXzz/YQD4YHB9IZGoqR88t5ej7eoXHBGmov3HPD/D25nMSz/6/l/TEq+ADzAZIVTHUb7tMC4JmTeLP85wTAc4v9GGPcdkiK+ewWAFHQ2FBgjMcUc0CAE3Tu1lxZXeAHdDALB65e3Hqx+WvUOb6yuZN2K+AygJAgWqcnFDFZToXgxEiteWjQkPNWuBQiNAGmileiZMLXTQtp3cgqrJ/0Cyo1lQjrd2wsGAAA=";
const STILL = `@font-face { font-family: Bars; src: url(data:font/woff2;base64,${BARS}); }
  *, ::before, ::after { font-family: Bars !important; font-weight: 400 !important; font-style: normal !important; letter-spacing: 0 !important;
    animation: none !important; transition: none !important; caret-color: transparent !important; content-visibility: visible !important; }`;
/** Widths of the screen, and the side of a square, in CSS pixels. */
const SIZES = [[360, 12], [768, 16], [1280, 24], [1920, 32]];
/** CSS pixels of a page that are looked at, from its top. */
const HEIGHT = 2000;
/** Pages are laid out as they are and drawn a fourth as wide and high: a square's lightness takes no more, and drawing is what takes time. */
const SCALE = 0.25;
/** A square differs by more than this lightness of 255; a picture by more than this share of its squares. A system pod for which two
 * nodes are equally good is 0.32 % of the narrowest board. */
const [LIGHTNESS, SHARE] = [12, 0.004];

/** In a page of its own: the lightness of each square of pictures, beside each other, as a picture; or how two of these differ. */
const squares = async (canvas, pictures) => canvas.evaluate(async ([pictures, height]) => {
  const parts = [];
  for (const [png, square] of pictures) {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d", { willReadFrequently: true });
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    const [columns, rows] = [Math.ceil(image.width / square), Math.ceil(height / square)];
    const part = { columns, rows, light: new Uint8Array(columns * rows) };
    for (let row = 0; row * square < Math.min(height, image.height); row += 1) {
      for (let column = 0; column < columns; column += 1) {
        let [sum, count] = [0, 0];
        for (let y = row * square; y < Math.min(image.height, (row + 1) * square); y += 1) {
          for (let x = column * square; x < Math.min(image.width, (column + 1) * square); x += 1) {
            const at = (y * image.width + x) * 4;
            sum += 0.3 * data[at] + 0.6 * data[at + 1] + 0.1 * data[at + 2];
            count += 1;
          }
        }
        part.light[row * columns + column] = Math.round(sum / count);
      }
    }
    parts.push(part);
  }
  const sheet = new OffscreenCanvas(parts.reduce((sum, part) => sum + part.columns, 0), Math.max(...parts.map((part) => part.rows)));
  const context = sheet.getContext("2d");
  let left = 0;
  for (const { columns, rows, light } of parts) {
    const image = context.createImageData(columns, rows);
    light.forEach((value, at) => image.data.set([value, value, value, 255], at * 4));
    context.putImageData(image, left, 0);
    left += columns;
  }
  const bytes = new Uint8Array(await (await sheet.convertToBlob()).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}, [pictures, HEIGHT * SCALE]);

/** For each picture of a sheet: its share of squares that differ, and the first of them. */
const difference = async (canvas, before, now, columns) => canvas.evaluate(async ([sheets, columns, least]) => {
  const [before, now] = await Promise.all(sheets.map(async (png) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  }));
  let left = 0;
  return columns.map((width) => {
    let [differs, all, first] = [0, 0, ""];
    for (let y = 0; y < now.height; y += 1) {
      for (let x = left; x < left + width; x += 1) {
        const at = (y * now.width + x) * 4;
        if (now.data[at + 3] === 0) continue;
        if (now.data[at] > 0 || before.data[at] > 0) all += 1;
        if (before.width !== now.width || Math.abs(before.data[at] - now.data[at]) > least) {
          differs += 1;
          first ||= `column ${x - left}, row ${y}`;
        }
      }
    }
    left += width;
    return { share: differs / all, first };
  });
}, [[before, now], columns, LIGHTNESS]);

/** Looks at a page in all sizes and colours. */
const look = async (canvas, page, name, shot) => {
  const pictures = [];
  const before = page.viewportSize();
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const [width, square] of SIZES) {
      await page.setViewportSize({ width, height: 900 });
      await shot(page, `${name}-${colorScheme}-${width}`);
      const style = await page.addStyleTag({ content: STILL });
      await page.evaluate(() => document.fonts.load("16px Bars").then(() => document.fonts.ready));
      const png = await page.screenshot({ fullPage: true, animations: "disabled" });
      await style.evaluate((element) => element.remove());
      pictures.push([png.toString("base64"), square * SCALE]);
    }
  }
  await page.setViewportSize(before);
  const now = await squares(canvas, pictures);
  const file = join(FOLDER, `${name}.png`);
  if (process.env.KLAB_BLESS) {
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(file, Buffer.from(now, "base64"));
    return [];
  }
  assert.ok(existsSync(file), `${file} is not there: KLAB_BLESS=1 writes it`);
  const columns = [...SIZES, ...SIZES].map(([width, square]) => Math.ceil(width / square));
  const differences = await difference(canvas, readFileSync(file, "base64"), now, columns);
  return differences.flatMap(({ share, first }, at) => {
    const what = `${name}, ${at < SIZES.length ? "light" : "dark"}, ${SIZES[at % SIZES.length][0]} wide`;
    if (process.env.KLAB_PICTURES) console.error(`${what}: ${(share * 100).toFixed(2)} %`);
    return share > SHARE ? [`${what}: ${(share * 100).toFixed(1)} % look otherwise, first at ${first}; KLAB_BLESS=1 renews the picture`] : [];
  });
};

/** Learners as an instructor's page is sent them: some stuck, some ahead, one sent away. */
const rows = () => Array.from({ length: 12 }, (_, number) => ({
  seat: `0-${number + 1}`, lab: "scheduling", name: ["Ann", "Ben", "Cem"][number % 3] + number, step: (number % 7) + 1, step_name: "taint", done: number % 7,
  steps: 21, held: [number % 3, 3], failing: number % 4 ? "" : "web: 3 running, wanted 2", since: new Date(Date.now() - (number % 4 ? 60_000 : 3_600_000)).toISOString(),
  stuck: number % 4 === 0, agreed: false, revoked: number === 11,
}));

/** All pages: of a class, of a board, and files (`NAME=PATH`). */
export const pictures = async ({ open, shot }, browser, url, code, link, board, ...files) => {
  const own = { ignoreHTTPSErrors: true, bypassCSP: true, deviceScaleFactor: SCALE };
  const canvas = await (await browser.newContext()).newPage();
  const troubles = [];
  const see = async (page, name) => {
    // A live page may have been between two states: what looks otherwise is looked at twice more.
    let found = await look(canvas, page, name, shot);
    for (let left = 2; found.length && left; left -= 1) {
      await page.waitForTimeout(1000);
      found = await look(canvas, page, name, shot);
    }
    troubles.push(...found);
  };
  const learner = await open(browser, own);
  await learner.goto(url);
  await see(learner, "entrance");
  await learner.locator("[name=code]").fill(code);
  await learner.locator("[name=name]").fill("Ann");
  await learner.locator("button[type=submit]").click();
  await learner.waitForSelector(".pin");
  await see(learner, "welcome");
  await learner.locator("a.next").click();
  await learner.waitForSelector("g.pod");
  await learner.locator("#lesson .next").click();
  await learner.waitForFunction(() => document.querySelector("#lesson h2")?.textContent?.startsWith("Step 1 of"));
  await see(learner, "seat");
  await learner.locator("g.pod").first().click();
  await learner.waitForSelector("#details h2");
  await see(learner, "pod");
  const summary = await learner.request.get(new URL("summary", learner.url()).href);
  await learner.goto(new URL("lines", learner.url()).href);
  await see(learner, "lines");

  const instructor = await open(browser, own);
  const data = { shard: 0, all: true, rows: rows(), class: { phase: "open", seats: 12, most: 30, people: 12, shards: 1, away: [] } };
  await instructor.addInitScript((data) => {
    globalThis.EventSource = class extends EventTarget {
      constructor() {
        super();
        setTimeout(() => this.dispatchEvent(new MessageEvent("class", { data })));
      }
    };
  }, JSON.stringify(data));
  await instructor.goto(link);
  await instructor.waitForSelector("#rows tr");
  await see(instructor, "instructor");

  const live = await open(browser, own);
  await live.goto(board);
  await live.waitForSelector("g.pod");
  await see(live, "board");
  const folder = mkdtempSync(join(tmpdir(), "klab-pictures-"));
  writeFileSync(join(folder, "summary.html"), await summary.text());
  for (const file of [`summary=${join(folder, "summary.html")}`, ...files]) {
    const [name, path] = file.split("=");
    const saved = await open(browser, own);
    await saved.goto(`file://${path}`);
    await see(saved, name);
  }
  rmSync(folder, { recursive: true });
  assert.deepEqual(troubles, []);
};
