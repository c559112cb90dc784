// The instructor's page: the link is exchanged for a cookie; then the class as it changes.
// @ts-check
"use strict";

/** @typedef {{ seat: string, lab: string, person: number, name: string, step: number, step_name: string, done: number, steps: number,
 *   held: [number, number] | null, failing: string, since: string, stuck: boolean, agreed: boolean, revoked: boolean }} Row */

(() => {
  /** @type {(id: string) => HTMLElement} */
  const one = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
  /** @param {string} words */
  const say = (words) => {
    one("said").textContent = words;
  };

  // A class of several shards is opened at any of them; from then on the page asks that one.
  const base = `${document.body.dataset.base}/teach/`;

  /** What a refusal says. @param {string} text */
  const words = (text) => {
    try {
      return String(JSON.parse(text).message);
    } catch {
      // It is words already.
      return text;
    }
  };

  /** @param {string} path @param {string} [body] */
  const post = async (path, body) => {
    const answer = await fetch(base + path, { method: "POST", body, headers: { "content-type": "text/plain; charset=utf-8" } });
    const text = await answer.text();
    if (!answer.ok) {
      say(words(text));
      return null;
    }
    // Done, but not everywhere.
    say(answer.status === 202 ? text : "");
    return text;
  };

  const open = async () => {
    const word = new URLSearchParams(location.hash.slice(1)).get("open");
    // What stands in the address is seen by whoever looks at the screen.
    history.replaceState(null, "", location.pathname);
    if (!word) {
      if (location.pathname !== base) return location.replace(base);
      return say("This page needs the instructor's link, which klab host prints.");
    }
    if ((await post("open", word)) !== null) location.replace(base);
  };
  if (document.body.dataset.known !== "true") {
    open();
    return;
  }
  if (location.hash) history.replaceState(null, "", location.pathname);

  /** The titles of each lab's steps. @type {Record<string, string[]>} */
  const labs = JSON.parse(document.body.dataset.labs ?? "{}");
  const isPractice = document.body.dataset.practice === "true";
  /** @type {Map<string, Row>} */
  const rows = new Map();
  /** @type {Map<string, HTMLTableRowElement>} */
  const lines = new Map();
  /** Seats as they stand below each other. @type {string[]} */
  const sorted = [];
  /** @type {Set<number>} */
  let away = new Set();
  let hidden = false;

  /** @param {string} since */
  const ago = (since) => {
    const minutes = Math.max(0, Math.floor((Date.now() - Date.parse(since)) / 60000));
    return minutes < 1 ? "just now" : minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
  };

  /** @param {string} seat */
  const order = (seat) => seat.split("-").map(Number);

  /** @param {Row} row */
  const isDone = (row) => row.steps > 0 && row.done >= row.steps;

  /** Whose seat it is, in the whole class. @param {Row} row */
  const learner = (row) => `${order(row.seat)[0]}-${row.person}`;

  /** How many tasks of a practice each learner has solved. @type {Map<string, number>} */
  const solved = new Map();
  const count = () => {
    solved.clear();
    for (const row of rows.values()) solved.set(learner(row), (solved.get(learner(row)) ?? 0) + (isDone(row) ? 1 : 0));
  };

  /** @param {Row} row */
  const isStuck = (row) =>
    !row.revoked && !isDone(row) && Date.now() - Date.parse(row.since) > 300000 && row.held !== null && row.held[0] < row.held[1];

  /** By what rows are sorted: those who are stuck come first, then who is furthest behind; ended seats come last. @param {Row} row */
  const rank = (row) => [isStuck(row) ? 0 : row.revoked ? 2 : 1, row.steps > 0 ? row.done / row.steps : 0, ...order(row.seat)];

  /** What each seat was sorted by. @type {Map<string, number[]>} */
  const ranks = new Map();

  /** @param {number[]} a @param {number[]} b */
  const compare = (a, b) => a.map((value, at) => value - b[at]).find((difference) => difference !== 0) ?? 0;

  /** The place of a seat among those that are shown. @param {number[]} own */
  const place = (own) => {
    let [from, to] = [0, sorted.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (compare(ranks.get(sorted[middle]) ?? [], own) < 0) from = middle + 1;
      else to = middle;
    }
    return from;
  };

  /** @param {string} seat */
  const takeOut = (seat) => {
    const own = ranks.get(seat);
    if (own) sorted.splice(place(own), 1);
    ranks.delete(seat);
  };

  /** Puts a row where it belongs. A row in use stays where it is. @param {Row} row @param {HTMLTableRowElement} line */
  const sort = (row, line) => {
    const [before, now] = [ranks.get(row.seat), rank(row)];
    if (before && (compare(before, now) === 0 || line === peeked || line.contains(document.activeElement) || line.matches(":hover"))) return;
    takeOut(row.seat);
    const at = place(now);
    one("rows").insertBefore(line, lines.get(sorted[at]) ?? null);
    sorted.splice(at, 0, row.seat);
    ranks.set(row.seat, now);
  };

  /** @param {number} shard @param {Set<string>} kept */
  const forget = (shard, kept) => {
    for (const seat of sorted.filter((one) => order(one)[0] === shard && !kept.has(one))) {
      lines.get(seat)?.remove();
      lines.delete(seat);
      rows.delete(seat);
      takeOut(seat);
    }
  };

  /** @param {Row} row */
  const draw = (row) => {
    let line = lines.get(row.seat);
    if (!line) {
      line = document.createElement("tr");
      for (let cell = 0; cell < 8; cell += 1) line.insertCell();
      const [button, tick] = [document.createElement("button"), document.createElement("input")];
      button.type = "button";
      button.textContent = "Open";
      button.dataset.open = row.seat;
      button.setAttribute("aria-label", `Open seat ${row.seat}`);
      line.cells[7].append(button);
      tick.type = "checkbox";
      tick.setAttribute("aria-label", `Seat ${row.seat}`);
      line.cells[0].append(tick, ` ${row.seat}`);
      line.cells[1].className = "who";
      lines.set(row.seat, line);
    }
    sort(row, line);
    const all = isDone(row);
    const step = row.revoked ? "ended" : isPractice ? (all ? "solved" : "not solved") : all ? "all done" : row.step === 0 ? "set-up" : `${row.step} of ${row.steps}: ${labs[row.lab]?.[row.step - 1] ?? row.step_name}`;
    const stuck = isStuck(row);
    const since = stuck ? `${ago(row.since)}, stuck` : ago(row.since);
    const name = isPractice ? `${row.name} (${solved.get(learner(row)) ?? 0} of ${Object.keys(labs).length})` : row.name;
    const texts = [name, row.lab, step, since, row.held ? `${row.held[0]} of ${row.held[1]}` : "–", row.failing];
    texts.forEach((text, cell) => {
      const place = /** @type {HTMLTableRowElement} */ (line).cells[cell + 1];
      if (place.textContent !== text) place.textContent = text;
    });
    line.classList.toggle("stuck", stuck);
    line.classList.toggle("away", away.has(order(row.seat)[0]));
    sift(row, line);
  };

  // ---- who is shown

  const search = /** @type {HTMLInputElement} */ (one("search"));
  const show = /** @type {HTMLSelectElement} */ (one("show"));

  /** @param {Row} row @param {HTMLTableRowElement} line */
  const sift = (row, line) => {
    const isShown = show.value === "stuck" ? isStuck(row) : show.value === "done" ? isDone(row) : true;
    line.hidden = !isShown || !(line.textContent ?? "").toLowerCase().includes(search.value.trim().toLowerCase());
  };
  const siftAll = () => {
    for (const [seat, line] of lines) {
      const row = rows.get(seat);
      if (row) sift(row, line);
    }
    counted();
  };
  const counted = () => {
    const shown = [...lines.values()].filter((line) => !line.hidden).length;
    const stuck = [...rows.values()].filter(isStuck).length;
    one("count").textContent = `${shown} of ${lines.size} shown, ${stuck === 1 ? "1 needs" : `${stuck} need`} help`;
  };
  search.addEventListener("input", siftAll);
  show.addEventListener("change", siftAll);
  one("filters").addEventListener("submit", (event) => event.preventDefault());

  /** The seats that are ticked and shown. */
  const ticked = () => [...lines].filter(([, line]) => !line.hidden && line.querySelector("input")?.checked).map(([seat]) => seat);
  document.addEventListener("change", () => {
    const many = ticked().length;
    one("hint-to").textContent = many === 0 ? "to everyone" : many === 1 ? "to 1 learner" : `to ${many} learners`;
  });

  /** A bar for each count, with what stands below it and what it means.
   * @param {string} words @param {number[]} counts @param {(at: number) => string} below @param {(at: number) => string} label */
  const chart = (words, counts, below, label) => {
    const title = document.createElement("h2");
    title.textContent = words;
    const list = document.createElement("ul");
    list.className = "bar-chart";
    const most = Math.max(1, ...counts);
    counts.forEach((count, at) => {
      const [item, many, bar, number] = ["li", "b", "i", "span"].map((kind) => document.createElement(kind));
      item.title = `${label(at)}: ${count}`;
      many.textContent = count ? String(count) : "";
      bar.style.height = `${(count / most) * 65}%`;
      number.textContent = below(at);
      item.append(many, bar, number);
      list.append(item);
    });
    return [title, list];
  };

  const histogram = () => {
    const place = one("histogram");
    place.textContent = "";
    if (isPractice) {
      const most = Object.keys(labs).length;
      const counts = Array.from({ length: most + 1 }, () => 0);
      for (const tasks of solved.values()) counts[tasks] += 1;
      document.body.classList.add("several-labs");
      return place.append(...chart("Learners by tasks solved", counts, String, (tasks) => `${tasks} of ${most} solved`));
    }
    const all = Object.keys(labs);
    // The only lab has its place before learners come: what is below does not move.
    const names = all.length === 1 ? new Set(all) : new Set([...rows.values()].map((row) => row.lab));
    for (const lab of names) {
      const own = [...rows.values()].filter((row) => row.lab === lab);
      const steps = labs[lab]?.length ?? 0;
      const counts = Array.from({ length: steps + 2 }, () => 0);
      for (const row of own) counts[isDone(row) ? steps + 1 : row.step] += 1;
      const label = (/** @type {number} */ step) => labs[lab]?.[step - 1] ?? (step === 0 ? "set-up" : step > steps ? "done" : String(step));
      place.append(...chart(`Steps of ${lab}`, counts, (step) => (step > steps ? "✓" : String(step)), label));
    }
    document.body.classList.toggle("several-labs", names.size > 1);
  };

  /** A time in the viewer's zone; the day only where it is another. @param {string} at */
  const moment = (at) => {
    const date = new Date(at);
    const isToday = date.toDateString() === new Date().toDateString();
    return date.toLocaleString([], { hour: "2-digit", minute: "2-digit", ...(isToday ? {} : { day: "numeric", month: "short" }) });
  };

  /** @param {any} facts */
  const tell = (facts) => {
    const words = [facts.phase, `${facts.seats} of ${facts.most} seats`, `${facts.people} ${facts.people === 1 ? "person" : "people"}`];
    if (facts.closes) words.push(`${facts.phase === "open" ? "closes" : "closed"} ${moment(facts.closes)}`);
    one("code").textContent = facts.code ?? "–";
    if (facts.shards > 1) words.push(`${facts.shards - facts.away.length} of ${facts.shards} shards`);
    one("facts").textContent = words.join(" · ");
    const gone = facts.away.length === 1 ? `Shard ${facts.away[0]} is` : `Shards ${facts.away.join(", ")} are`;
    one("away").textContent = facts.away.length > 0 ? `${gone} away: seats there are shown as they were seen last.` : "";
    if (!facts.codes) return;
    const codes = one("codes");
    codes.textContent = "";
    for (const code of facts.codes) {
      const line = document.createElement("p");
      line.textContent = `${code.of === "class" ? "class" : "seat"} code ${code.name}: ${code.used ? `used by ${code.used}` : "unused"}${code.revoked ? ", revoked" : ""} `;
      if (!code.revoked) {
        const button = document.createElement("button");
        button.type = "button";
        button.dataset.act = `revoke?code=${code.number}`;
        button.textContent = "Revoke";
        button.className = "danger";
        line.append(button);
      }
      codes.append(line);
    }
  };

  const lost = "The host does not answer; the page tries again.";
  /** @param {string} text */
  const take = (text) => {
    const news = JSON.parse(text);
    const gone = new Set(/** @type {number[]} */ (news.class.away));
    const changed = gone.size !== away.size || [...gone].some((shard) => !away.has(shard));
    away = gone;
    // Rows stay where they may: one may be ticked, or have the focus.
    if (news.all) forget(news.shard, new Set(news.rows.map((/** @type {Row} */ row) => row.seat)));
    for (const row of news.rows) rows.set(row.seat, row);
    if (isPractice) count();
    // The score stands in all rows of a learner.
    const whose = new Set(isPractice ? news.rows.map(learner) : []);
    const drawn = changed ? rows.values() : isPractice ? [...rows.values()].filter((row) => whose.has(learner(row))) : news.rows;
    for (const row of drawn) draw(row);
    if (peeked && !peeked.isConnected) unpeek();
    else if (peeked && (changed || news.rows.includes(rows.get(openOf(peeked).dataset.open ?? "")))) renew();
    tell(news.class);
    histogram();
    counted();
  };

  const listen = () => {
    const source = new EventSource(`${base}events`);
    source.addEventListener("class", (event) => take(event.data));
    source.addEventListener("open", () => one("said").textContent === lost && say(""));
    source.addEventListener("error", async () => {
      say(lost);
      if (source.readyState !== EventSource.CLOSED) return;
      // A browser that was answered something else, as by a proxy without its host, does not try again by itself.
      const answer = await fetch(`${base}class.json?own=true`).catch(() => null);
      if (answer?.status === 401) say("You are not known here any more: load this page again.");
      else setTimeout(listen, 3000);
    });
  };
  histogram();
  listen();
  setInterval(() => rows.forEach(draw), 30000);

  // ---- a small board beside the row where the pointer or the keyboard rests

  /** Until a board is shown or goes away, and until the same one is asked for again, in milliseconds. */
  const [REST, AGAIN] = [300, 2000];
  const peek = one("peek");
  /** The row whose board is shown. @type {HTMLTableRowElement | null} */
  let peeked = null;
  /** The row whose board was sent away. @type {HTMLTableRowElement | null} */
  let dismissed = null;
  let [resting, renewing] = [0, 0];
  /** Boards that were asked for just now, by seat. @type {Map<string, Promise<string>>} */
  const boards = new Map();

  /** @param {string} words */
  const plain = (words) => Object.assign(document.createElement("p"), { id: "peek-words", textContent: words }).outerHTML;

  /** @param {string} seat */
  const boardOf = (seat) => {
    const known = boards.get(seat);
    if (known) return known;
    const asked = fetch(`${base}seats/${seat}/picture`)
      .then(async (answer) => (answer.ok ? answer.text() : Promise.reject(words(await answer.text()))))
      .catch((error) => (renew(), plain(typeof error === "string" ? error : "The host does not answer.")));
    boards.set(seat, asked);
    setTimeout(() => boards.delete(seat), AGAIN);
    return asked;
  };

  /** @param {HTMLTableRowElement} line */
  const openOf = (line) => /** @type {HTMLButtonElement} */ (line.querySelector("[data-open]"));

  const unpeek = () => {
    if (peeked) openOf(peeked).removeAttribute("aria-describedby");
    peeked = null;
    peek.hidden = true;
  };

  /** @param {HTMLTableRowElement} line */
  const look = async (line) => {
    peeked = line;
    const seat = openOf(line).dataset.open ?? "";
    const row = rows.get(seat);
    const html = row?.revoked ? plain("The seat is ended. Open it to see what was done there.")
      : away.has(order(seat)[0]) ? plain("Its shard is away: there is no board to see now.") : await boardOf(seat);
    if (peeked !== line) return;
    one("peek-title").textContent = `Seat ${seat}${row && !hidden ? `, ${row.name}` : ""}`;
    one("peek-board").innerHTML = html;
    openOf(line).setAttribute("aria-describedby", "peek-words");
    peek.hidden = false;
    put(line);
  };

  /** Puts the board beside its row where there is room, else below or above it, in the window and as large as fits. @param {HTMLTableRowElement} line */
  const put = (line) => {
    const GAP = 8;
    const [row, { clientWidth, clientHeight }] = [line.getBoundingClientRect(), document.documentElement];
    const [right, above, below] = [clientWidth - row.right - 2 * GAP, row.top - 2 * GAP, clientHeight - row.bottom - 2 * GAP];
    const isBeside = right >= 240;
    const width = Math.min(480, isBeside ? right : clientWidth - 2 * GAP);
    peek.style.width = `${width}px`;
    peek.style.maxHeight = `${isBeside ? clientHeight - 2 * GAP : Math.max(above, below)}px`;
    for (let size = 60; size >= 20; size -= 5) {
      one("peek-board").style.setProperty("--size", `${size}%`);
      if (peek.scrollHeight <= peek.clientHeight) break;
    }
    const high = peek.offsetHeight;
    const top = Math.max(GAP, Math.min((row.top + row.bottom - high) / 2, clientHeight - GAP - high));
    peek.style.left = `${isBeside ? row.right + GAP : Math.max(GAP, Math.min(row.right, clientWidth - GAP) - width)}px`;
    peek.style.top = `${isBeside ? top : below >= above ? row.bottom + GAP : row.top - GAP - high}px`;
  };

  /** Shows what is shown as it is now, once it may be asked for again. */
  const renew = () => {
    renewing ||= setTimeout(() => { renewing = 0; if (peeked) look(peeked); }, AGAIN);
  };

  /** The row whose board is wanted: where the pointer is, else where the keyboard is. */
  const wanted = () => {
    const at = one("rows").querySelector("tr:hover") ?? one("rows").querySelector("[data-open]:focus-visible")?.closest("tr");
    return peek.matches(":hover") ? peeked : /** @type {HTMLTableRowElement | null} */ (at ?? null);
  };

  const settle = () => {
    clearTimeout(resting);
    resting = setTimeout(() => {
      const line = wanted();
      if (line !== dismissed) dismissed = null;
      if (line === peeked) return;
      unpeek();
      if (line && line !== dismissed) look(line);
    }, REST);
  };
  for (const place of [one("rows"), peek]) for (const name of ["pointerover", "pointerleave", "focusin", "focusout"]) place.addEventListener(name, settle);
  document.addEventListener("scroll", unpeek, { capture: true, passive: true });
  addEventListener("resize", unpeek);
  // What comes above a row moves it.
  new ResizeObserver(() => peeked && put(peeked)).observe(document.body);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !peeked) return;
    dismissed = peeked;
    unpeek();
  });

  // ---- what the instructor does

  let seat = "";
  const dialog = /** @type {HTMLDialogElement} */ (one("seat"));

  document.addEventListener("click", async (event) => {
    const button = /** @type {Element} */ (event.target).closest("button");
    if (!button) return;
    const { act, open: opened, seat: does, codes } = button.dataset;
    if (act) await post(act);
    if (opened) {
      unpeek();
      seat = opened;
      const row = rows.get(seat);
      one("seat-title").textContent = `Seat ${seat}${row && !hidden ? `, ${row.name}` : ""}`;
      /** @type {HTMLAnchorElement} */ (one("look")).href = `${base}seats/${seat}/`;
      one("revoke").hidden = row?.revoked ?? false;
      one("readmit").hidden = !(row?.revoked ?? false);
      const steps = ["the set-up", ...(labs[row?.lab ?? ""] ?? [])];
      one("seat-step").replaceChildren(...steps.map((title, number) => new Option(number ? `${number}: ${title}` : title, String(number), false, number === row?.done)));
      dialog.showModal();
    }
    if (does) {
      const hint = /** @type {HTMLInputElement} */ (one("seat-hint")).value;
      const step = /** @type {HTMLInputElement} */ (one("seat-step")).value;
      const path = does === "steps" ? `seats/${seat}/steps?done=${encodeURIComponent(step)}` : `seats/${seat}/${does}`;
      /** @type {Record<string, string>} */
      const asks = {
        reset: `All that was done in seat ${seat} is taken back. Go on?`,
        revoke: `The learner of seat ${seat} is sent away at once: token, code, page and console end. What was done there stays. Go on?`,
      };
      if (asks[does] && !confirm(asks[does])) return;
      button.disabled = true;
      const done = await post(path, does === "hint" ? hint : undefined);
      button.disabled = false;
      if (done !== null && (does === "revoke" || does === "readmit")) dialog.close();
    }
    if (codes) {
      const text = await post(codes === "class" ? "codes" : `codes?seats=${codes}`);
      one("fresh").hidden = !text;
      if (text) one("fresh").textContent = text;
    }
    if (button.id === "end") /** @type {HTMLDialogElement} */ (one("closing")).showModal();
    if (button.id === "copy-code") {
      const isCopied = await navigator.clipboard.writeText(one("code").textContent ?? "").then(() => true, () => false);
      button.textContent = isCopied ? "Copied" : "Not allowed";
    }
    if (button.id === "names") {
      hidden = !hidden;
      document.body.classList.toggle("nameless", hidden);
      button.setAttribute("aria-pressed", String(hidden));
      button.textContent = hidden ? "Show names" : "Hide names";
    }
  });

  one("hint").addEventListener("submit", async (event) => {
    event.preventDefault();
    const input = /** @type {HTMLInputElement} */ (one("hint").querySelector("input"));
    const seats = ticked();
    const sent = await Promise.all((seats.length ? seats.map((seat) => `seats/${seat}/hint`) : ["hint"]).map((path) => post(path, input.value)));
    if (!sent.includes(null)) input.value = "";
  });
})();
