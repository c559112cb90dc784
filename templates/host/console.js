// The console of a learner's page: lines are sent as they are typed, and what comes back is shown as text.
// @ts-check
"use strict";

/** @typedef {{ output?: string, talk?: string, code?: number, note?: string | null, refused?: string }} Piece */

(() => {
  const MOST_ENTRIES = 100;
  const MOST_OFFERS = 12;
  /** @type {<T extends HTMLElement>(id: string) => T} */
  const one = (id) => /** @type {any} */ (document.getElementById(id));
  const section = one("console");
  if (!section) return;
  const base = section.dataset.base ?? "";
  const lab = section.dataset.lab ?? "";
  const screen = one("console-screen");
  /** @type {HTMLTextAreaElement} */
  const line = one("console-line");
  /** @type {HTMLButtonElement} */
  const end = one("console-end");
  const offers = one("console-offers");
  /** @type {HTMLSelectElement} */
  const chooser = one("console-file");
  /** @type {HTMLTextAreaElement} */
  const text = one("console-text");
  /** @type {HTMLFormElement} */
  const naming = one("console-naming");

  // ---- what this browser keeps until it is closed

  /** @template T @param {string} name @param {T} otherwise @returns {T} */
  const kept = (name, otherwise) => {
    try {
      return JSON.parse(sessionStorage.getItem(`klab-${lab}-${name}`) ?? "null") ?? otherwise;
    } catch {
      return otherwise;
    }
  };
  /** @param {string} name @param {unknown} value */
  const keep = (name, value) => {
    try {
      sessionStorage.setItem(`klab-${lab}-${name}`, JSON.stringify(value));
    } catch {
      // A browser that keeps nothing forgets it with the page.
    }
  };

  // ---- the editor

  /** @type {Record<string, string>} */
  const files = kept("files", {});
  let open = "";

  /** @param {string} name */
  const show = (name) => {
    open = name in files ? name : (Object.keys(files)[0] ?? "");
    chooser.replaceChildren(
      ...Object.keys(files).map((file) => {
        const option = document.createElement("option");
        option.value = option.textContent = file;
        option.selected = file === open;
        return option;
      }),
    );
    text.value = files[open] ?? "";
    text.disabled = open === "";
  };
  /** @param {string} name @param {string} content */
  const put = (name, content) => {
    files[name] = content;
    keep("files", files);
    show(name);
    /** @type {HTMLDetailsElement} */ (one("console-editor")).open = true;
  };
  chooser.addEventListener("change", () => show(chooser.value));
  text.addEventListener("input", () => {
    files[open] = text.value;
    keep("files", files);
  });
  let leaving = false;
  text.addEventListener("keydown", (event) => {
    if (event.key === "Tab" && !event.shiftKey && !leaving) {
      event.preventDefault();
      text.setRangeText("  ", text.selectionStart, text.selectionEnd, "end");
      text.dispatchEvent(new Event("input"));
    }
    leaving = event.key === "Escape";
  });
  one("console-new").addEventListener("click", () => {
    naming.hidden = false;
    one("console-name").focus();
  });
  naming.addEventListener("submit", (event) => {
    event.preventDefault();
    naming.hidden = true;
    const name = /** @type {HTMLInputElement} */ (one("console-name")).value;
    put(name, files[name] ?? "");
    text.focus();
  });
  one("console-drop").addEventListener("click", () => {
    delete files[open];
    keep("files", files);
    show("");
    chooser.focus();
  });
  /** @type {HTMLButtonElement} */
  const apply = one("console-apply");
  apply.addEventListener("click", () => {
    if (open) run(`kubectl apply -f ${open}`);
  });
  // Nothing is applied in a class that is closed, which the bar above says.
  const bar = document.querySelector("[data-part=class]");
  const closing = () => {
    apply.disabled = bar?.querySelector("[data-closed]") != null;
    one("console-closed").hidden = !apply.disabled;
  };
  if (bar) new MutationObserver(closing).observe(bar, { childList: true, subtree: true });
  closing();

  // ---- running

  /** @type {AbortController | null} */
  let running = null;
  /** @type {string[]} */
  const history = kept("history", []);
  let at = history.length;

  /** @param {HTMLElement} entry @param {string} kind @param {string} words */
  const say = (entry, kind, words) => {
    const last = /** @type {HTMLElement | null} */ (entry.lastElementChild);
    const wasAtEnd = screen.scrollHeight - screen.scrollTop - screen.clientHeight < 40;
    if (last && last.className === kind) {
      last.append(words);
    } else {
      const pre = document.createElement("pre");
      pre.className = kind;
      pre.textContent = words;
      entry.append(pre);
    }
    if (wasAtEnd) screen.scrollTop = screen.scrollHeight;
  };

  /** A button that puts what was printed into the editor. @param {HTMLElement} entry @param {string} typed */
  const offerEditing = (entry, typed) => {
    const manifest = printed(entry);
    if (!/^(apiVersion|kind|---)/.test(manifest)) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "To the editor";
    button.addEventListener("click", () => {
      const words = typed.split(/\s+/).filter((word) => /^[a-z0-9][a-z0-9./-]*$/.test(word) && !["kubectl", "k", "get", "yaml"].includes(word));
      put(`${(words.slice(0, 2).join("-") || "my").replaceAll("/", "-").slice(0, 60)}.yaml`, manifest);
      text.focus();
    });
    entry.append(button);
  };

  /** @param {HTMLElement} entry */
  const printed = (entry) => [...entry.querySelectorAll(".output")].map((part) => part.textContent).join("");

  /** @param {Piece} piece @param {HTMLElement} entry */
  const take = (piece, entry) => {
    if (piece.output !== undefined) say(entry, "output", piece.output);
    if (piece.talk !== undefined) say(entry, "talk", piece.talk);
    if (piece.refused !== undefined) say(entry, "note", piece.refused);
    if (piece.note) say(entry, "note", piece.note);
    if (piece.code) say(entry, "note", `exit code ${piece.code}`);
    if (piece.code || piece.refused !== undefined) entry.dataset.failed = "true";
  };

  /** Sends a line, and hands on what comes of it. @param {string} typed @param {Record<string, string>} more files
   *  @param {AbortSignal} signal @param {(piece: Piece) => void} each */
  const send = async (typed, more, signal, each) => {
    const answer = await fetch(`${base}/learn/${lab}/console/run`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ line: typed, files: { ...files, ...more } }),
      signal,
    });
    if (!answer.ok || !answer.body) throw new Error((await answer.json().catch(() => null))?.message ?? answer.statusText);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (rest + (value ?? "")).split("\n");
      rest = done ? "" : (lines.pop() ?? "");
      for (const line of lines) if (line) each(/** @type {Piece} */ (JSON.parse(line)));
      if (done) break;
    }
  };

  /** Runs a line, and returns what it printed where it did well. @param {string} typed @param {Record<string, string>} more files */
  const run = async (typed, more = {}) => {
    if (running) return "";
    const entry = document.createElement("div");
    entry.className = "entry";
    screen.append(entry);
    while (screen.children.length > MOST_ENTRIES) screen.firstElementChild?.remove();
    say(entry, "typed", `$ ${typed}`);
    screen.scrollTop = screen.scrollHeight;
    if (history[history.length - 1] !== typed) history.push(typed);
    at = history.length;
    keep("history", history.slice(-200));
    const control = new AbortController();
    running = control;
    end.hidden = false;
    try {
      await send(typed, more, control.signal, (piece) => take(piece, entry));
      offerEditing(entry, typed);
      return entry.dataset.failed ? "" : printed(entry);
    } catch (error) {
      const words = control.signal.aborted ? "ended" : `the console does not answer: ${error instanceof Error ? error.message : error}`;
      say(entry, "note", words);
    } finally {
      running = null;
      end.hidden = true;
    }
    return "";
  };
  end.addEventListener("click", () => {
    running?.abort();
    line.focus();
  });

  // ---- kubectl edit: the object in a dialog, what changes below it, then `kubectl replace`

  const dialog = /** @type {HTMLDialogElement} */ (one("edit"));
  /** @type {HTMLTextAreaElement} */
  const edited = one("edit-text");
  let original = "";
  const EDITED = "edit.yaml";

  /** The lines that go and come, by the longest common run of lines. What is alike at both ends is left out first: an object may be long. */
  const differ = () => {
    let [old, now] = [original.split("\n"), edited.value.split("\n")];
    let [head, tail] = [0, 0];
    while (head < old.length && old[head] === now[head]) head += 1;
    while (tail < Math.min(old.length, now.length) - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
    [old, now] = [old, now].map((lines) => lines.slice(head, lines.length - tail));
    const width = now.length + 1;
    const length = new Uint16Array((old.length + 1) * width);
    for (let i = old.length - 1; i >= 0; i -= 1) {
      for (let j = now.length - 1; j >= 0; j -= 1) {
        const [down, right] = [length[(i + 1) * width + j], length[i * width + j + 1]];
        length[i * width + j] = old[i] === now[j] ? length[(i + 1) * width + j + 1] + 1 : Math.max(down, right);
      }
    }
    /** @type {Node[]} */
    const shown = [];
    const add = (/** @type {string} */ kind, /** @type {string} */ words) => {
      const element = document.createElement(kind);
      element.textContent = words;
      shown.push(element);
    };
    for (let [i, j] = [0, 0]; i < old.length || j < now.length; ) {
      if (i < old.length && j < now.length && old[i] === now[j]) [i, j] = [i + 1, j + 1];
      else if (j >= now.length || (i < old.length && length[(i + 1) * width + j] >= length[i * width + j + 1])) add("del", `- ${old[i++]}`);
      else add("ins", `+ ${now[j++]}`);
    }
    /** @type {HTMLButtonElement} */ (one("edit-apply")).disabled = shown.length === 0;
    if (shown.length === 0) shown.push(document.createTextNode("Nothing yet."));
    one("edit-difference").replaceChildren(...shown);
  };
  edited.addEventListener("input", differ);

  // ---- schema hints in the editor, from `kubectl explain`

  const hint = one("edit-hint");
  /** What is edited, as `kubectl explain` takes it. */
  let kind = "";
  /** Its fields by their paths, and the type of each. @type {Map<string, string>} */
  let fields = new Map();
  /** What fields are for, by what was asked. @type {Map<string, Promise<string>>} */
  const descriptions = new Map();
  let pausing = 0;

  /** What a line prints; nothing where it is refused. @param {string} typed */
  const ask = async (typed) => {
    let printed = "";
    await send(typed, {}, AbortSignal.timeout(10_000), (piece) => (printed += piece.output ?? "")).catch(() => {});
    return printed;
  };

  const learnFields = async () => {
    fields = new Map();
    const [asked, all] = [kind, new Map()];
    /** @type {string[]} */
    const path = [];
    for (const [, blanks, name, type] of (await ask(`kubectl explain ${asked} --recursive`)).matchAll(/^( +)(\S+)\t<(.+?)>/gm)) {
      path.splice(blanks.length / 2 - 1, Infinity, name);
      all.set(path.join("."), type);
    }
    // Something else may have been opened since.
    if (asked !== kind) return;
    fields = all;
    showHint();
  };

  /** The path of the field at the caret: what stands above it with fewer blanks; `- ` counts as two. */
  const pathAtCaret = () => {
    const lines = edited.value.slice(0, edited.selectionStart).split("\n");
    lines.push((lines.pop() ?? "") + edited.value.slice(edited.selectionStart).split("\n", 1)[0]);
    /** @type {string[]} */
    const path = [];
    let depth = Infinity;
    for (const line of lines.reverse()) {
      const [, blanks, key, colon] = /^((?: |- )*)([\w./-]*)(:?)/.exec(line) ?? ["", "", "", ""];
      // The line of the caret counts while its key is typed.
      if (blanks.length >= depth || (path.length > 0 && !colon)) continue;
      path.unshift(key);
      depth = blanks.length;
    }
    return (path[0] === "items" ? path.slice(1) : path).join(".");
  };

  const showHint = () => {
    clearTimeout(pausing);
    const at = pathAtCaret();
    let path = at;
    const below = (/** @type {string} */ path) => [...fields.keys()].filter((one) => one.startsWith(path ? `${path}.` : "") && !one.slice(path ? path.length + 1 : 0).includes("."));
    const typed = path.slice(path.lastIndexOf(".") + 1);
    const owner = path.slice(0, Math.max(0, path.length - typed.length - 1));
    const near = below(owner).map((one) => one.slice(owner ? owner.length + 1 : 0));
    if (fields.size > 0 && !fields.has(path) && near.length > 0) {
      const matching = near.filter((name) => typed && name.toLowerCase().includes(typed.toLowerCase()));
      hint.textContent = `${owner ? `${owner} has` : "There are"}: ${(matching.length ? matching : near).join(", ")}`;
      return;
    }
    // What is in a map or a text has no schema of its own.
    while (path && !fields.has(path)) path = path.slice(0, Math.max(0, path.lastIndexOf(".")));
    hint.textContent = path ? `${path} <${fields.get(path)}>` : "";
    if (!path) return;
    pausing = setTimeout(async () => {
      const asked = `kubectl explain ${kind}.${path}`;
      if (!descriptions.has(asked)) descriptions.set(asked, ask(asked));
      const [, values, words] = /(?:^ENUM:\n((?: .*\n)+))?\n*^DESCRIPTION:\n((?: +\S.*\n)+)/m.exec((await descriptions.get(asked)) ?? "") ?? [];
      // A console that was busy is asked again.
      if (!words) descriptions.delete(asked);
      if (!words || pathAtCaret() !== at) return;
      const line = (/** @type {string} */ text) => text.trim().split(/\s*\n\s*/);
      hint.textContent = `${path} <${fields.get(path)}>${values ? ` ${line(values).join(" | ")}` : ""}: ${line(words).join(" ")}`;
    }, 300);
  };
  document.addEventListener("selectionchange", () => document.activeElement === edited && showHint());
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "apply") run(`kubectl replace -f ${EDITED}`, { [EDITED]: edited.value });
    line.focus();
  });

  /** Opens what `kubectl edit` names; says whether the line is one. @param {string} typed */
  const edit = async (typed) => {
    const rest = /^(?:kubectl|k)\s+edit\s+([^|;&<>]+)$/.exec(typed)?.[1];
    if (!rest || /(^|\s)(-h|--help)/.test(rest)) return false;
    original = await run(`kubectl get ${rest} -o yaml`);
    if (!original) return true;
    edited.value = original;
    one("edit-title").textContent = `Edit ${rest.trim()}`;
    differ();
    // Of several objects, the list's own kind comes last.
    kind = /^ *kind: (\w+)/m.exec(original)?.[1].toLowerCase() ?? "";
    hint.textContent = "";
    learnFields();
    dialog.returnValue = "";
    dialog.showModal();
    edited.focus();
    edited.setSelectionRange(0, 0);
    return true;
  };

  // ---- what the page shows to type: one click puts it into the line, a second runs it

  const COMMAND = /^(kubectl|klab|az) (?!.*…)/;
  const arm = () => {
    for (const button of /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll(".put"))) {
      const isArmed = line.value.trim() === button.dataset.put;
      button.classList.toggle("armed", isArmed);
      button.textContent = isArmed ? "Run" : "To console";
    }
  };
  /** @param {string} command */
  const putButton = (command) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "put";
    button.dataset.put = command;
    button.setAttribute("aria-description", command);
    return button;
  };
  /** Gives each line to type its button; blocks of commands become lines. */
  const furnish = () => {
    for (const copy of /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll("aside .line > .copy:not([data-prose])"))) {
      const command = copy.dataset.copy?.trim() ?? "";
      if (COMMAND.test(command) && !copy.nextElementSibling) copy.after(putButton(command));
    }
    for (const block of document.querySelectorAll("#lesson .text pre")) {
      const commands = (block.textContent ?? "").trimEnd().replaceAll("\\\n", "\\\0").split("\n").map((each) => each.replaceAll("\0", "\n").trim());
      if (!commands.every((command) => COMMAND.test(command))) continue;
      block.replaceWith(...commands.map((command) => {
        const [row, code] = [document.createElement("div"), document.createElement("code")];
        row.className = "line";
        code.textContent = command;
        row.append(code, putButton(command));
        return row;
      }));
    }
    arm();
  };
  const aside = document.querySelector("aside");
  if (aside) {
    new MutationObserver((changes) => {
      if (changes.some((change) => [...change.addedNodes].some((node) => node.nodeType === 1))) furnish();
    }).observe(aside, { childList: true, subtree: true });
  }
  document.addEventListener("click", (event) => {
    const button = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest(".put"));
    if (!button) return;
    if (button.classList.contains("armed")) return submit();
    line.value = button.dataset.put ?? "";
    line.rows = Math.min(10, line.value.split("\n").length);
    arm();
  });

  // ---- completion

  /** @type {{ verbs: Record<string, string[]>, kinds: string[], klab: Record<string, string[]> }} */
  let words = { verbs: {}, kinds: [], klab: {} };
  fetch(`${base}/learn/${lab}/console/words`).then(async (answer) => {
    if (!answer.ok) return;
    words = await answer.json();
    // Whoever types faster than the words come is offered them now.
    if (document.activeElement === line) offer();
  }).catch(() => {});

  /** What may stand where the line ends. @returns {string[]} */
  const possible = () => {
    const before = line.value.slice(0, line.selectionStart);
    if (line.selectionStart !== line.value.length || before.includes("\n") || /['"]/.test(before)) return [];
    const typed = before.split(/\s+/);
    const last = typed.pop() ?? "";
    if (typed.length === 0) return last ? ["kubectl", "klab", "az"].filter((word) => word.startsWith(last) && word !== last).map((word) => `${word} `) : [];
    // `az` is one of klab's commands.
    if (typed[0] === "az") typed.unshift("klab");
    const isKlab = typed[0] === "klab";
    if (!isKlab && typed[0] !== "kubectl" && typed[0] !== "k") return [];
    const table = isKlab ? words.klab : words.verbs;
    const said = typed.slice(1).filter((word) => !word.startsWith("-"));
    const previous = typed[typed.length - 1];
    if (previous === "-f" || previous === "--filename") return Object.keys(files).filter((file) => file.startsWith(last));
    const verbs = Object.keys(table);
    const verb = [4, 3, 2, 1].map((length) => said.slice(0, length).join(" ")).find((name) => verbs.includes(name));
    if (last.startsWith("-")) return (table[verb ?? ""] ?? []).filter((flag) => flag.startsWith(last)).map((flag) => (flag.endsWith("=") ? flag : `${flag} `));
    const path = said.join(" ");
    const next = verbs.filter((name) => name.startsWith(path ? `${path} ` : "")).map((name) => name.split(" ")[said.length]);
    const kinds = verb && !isKlab && said.length === verb.split(" ").length && !verb.startsWith("create") ? words.kinds : [];
    return [...new Set([...next, ...kinds])].filter((word) => word?.startsWith(last) && word !== last).map((word) => `${word} `);
  };
  /** @type {string[]} */
  let offered = [];
  let chosen = 0;
  const offer = () => {
    offered = possible().slice(0, MOST_OFFERS);
    chosen = 0;
    draw();
  };
  const draw = () => {
    offers.hidden = offered.length === 0;
    offers.replaceChildren(
      ...offered.map((word, number) => {
        const item = document.createElement("li");
        item.id = `console-offer-${number}`;
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", String(number === chosen));
        item.textContent = word.trim();
        item.addEventListener("mousedown", (event) => {
          event.preventDefault();
          chosen = number;
          accept();
        });
        return item;
      }),
    );
    if (offered.length) line.setAttribute("aria-activedescendant", `console-offer-${chosen}`);
    else line.removeAttribute("aria-activedescendant");
  };
  const accept = () => {
    const word = offered[chosen];
    if (word === undefined) return;
    line.value = line.value.replace(/\S*$/, () => word);
    offer();
  };
  const close = () => {
    offered = [];
    draw();
  };
  line.addEventListener("input", () => {
    line.rows = Math.min(10, line.value.split("\n").length);
    arm();
    offer();
  });
  line.addEventListener("blur", close);

  // ---- keys of the line

  /** A line is whole where its here-document is, and no backslash stands at its end. */
  const isWhole = () => {
    const word = /<<\s*['"]?(\w+)['"]?/.exec(line.value.split("\n")[0])?.[1];
    return word ? line.value.split("\n").slice(1).includes(word) : !line.value.endsWith("\\");
  };
  const submit = () => {
    const typed = line.value.trim();
    if (!typed || running) return;
    line.value = "";
    line.rows = 1;
    close();
    arm();
    edit(typed).then((isEdit) => { if (!isEdit) run(typed); });
  };
  /** @param {number} step */
  const recall = (step) => {
    const next = at + step;
    if (next < 0 || next > history.length) return;
    at = next;
    line.value = history[at] ?? "";
    line.rows = Math.min(10, line.value.split("\n").length);
    close();
    arm();
  };
  line.addEventListener("keydown", (event) => {
    const single = !line.value.includes("\n");
    if (event.key === "Enter" && !event.shiftKey && isWhole()) {
      event.preventDefault();
      submit();
    } else if ((event.key === "Tab" || event.key === "ArrowRight") && offered.length && !event.shiftKey) {
      event.preventDefault();
      accept();
    } else if (event.key === "Escape" && offered.length) {
      event.preventDefault();
      close();
    } else if ((event.key === "ArrowUp" || event.key === "ArrowDown") && event.ctrlKey === false && single) {
      event.preventDefault();
      const step = event.key === "ArrowUp" ? -1 : 1;
      if (offered.length && at === history.length && step === 1) {
        chosen = (chosen + 1) % offered.length;
        draw();
      } else recall(step);
    } else if (event.key === "c" && event.ctrlKey && line.selectionStart === line.selectionEnd) {
      event.preventDefault();
      if (running) running.abort();
      else {
        line.value = "";
        close();
      }
    }
  });
  one("console-form").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  show("");
  furnish();
})();
