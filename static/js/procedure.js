/* The editor of a procedure: marks and completes references, goes to lines. */
const element = (tag, properties) => Object.assign(document.createElement(tag), properties);
const edit = (box, signal) => {
  const frame = box.closest("[data-editor]");
  const marks = frame.querySelector(".editor-marks");
  const MOST_OFFERED = 40;
  const on = (type, act) => document.addEventListener(type, act, { signal });

  let tools = [];
  let named = null;
  const readTools = async () => {
    const reply = await fetch(`${frame.dataset.offers}?own=1`).catch(() => null);
    if (!reply?.ok) return;
    tools = (await reply.json()).tools;
    const isFirst = !named;
    named = new Map(tools.map((tool) => [tool.name.toLowerCase(), tool]));
    draw();
    /* Completes what was typed meanwhile. */
    if (isFirst) showMore();
  };

  /* The grammar of designer/procedures/references.py. */
  const NAME = String.raw`[A-Za-z_][\w-]*`;
  const ITEM = String.raw`\{(?:item:)?${NAME}\}`;
  const VALUE = String.raw`${ITEM}|"[^"\n]{0,200}"|'[^'\n]{0,200}'|“[^”\n]{0,200}”|[\w.+-]{1,200}`;
  const ARGUMENT = String.raw`(?:${ITEM}|${NAME}(?:\s?[=:]\s?(?:${VALUE}))?)`;
  const REFERENCE = new RegExp(
    String.raw`${ITEM}|(?<![\w@/-])@?(${NAME})\((?:\)(?:\.([A-Za-z_](?:[\w-]*\w)?))?|(${ARGUMENT}(?:\s?,\s?${ARGUMENT}){0,30})\))`,
    "g",
  );
  const kindOf = (match) => {
    if (match[0].startsWith("{")) return "is-item";
    if (!named) return null;
    const tool = named.get(match[1].toLowerCase());
    if (match[3] !== undefined && !tool) return null;
    if (!tool) return "is-unknown";
    if (match[2] && tool.outputs.length && !tool.outputs.some((each) => each.name === match[2])) return "is-unknown";
    return "is-known";
  };
  const draw = () => {
    const parts = [];
    let end = 0;
    for (const match of box.value.matchAll(REFERENCE)) {
      const kind = kindOf(match);
      if (!kind) continue;
      parts.push(box.value.slice(end, match.index), element("mark", { className: kind, textContent: match[0] }));
      end = match.index + match[0].length;
    }
    marks.replaceChildren(...parts, box.value.slice(end), "\n");
  };

  const changed = () => box.dispatchEvent(new Event("input", { bubbles: true }));
  const put = (text, from, to) => {
    box.focus();
    box.setSelectionRange(from, to);
    /* Keeps the browser's undo if it can. */
    if (!document.execCommand("insertText", false, text)) {
      box.setRangeText(text, from, to, "end");
      changed();
    }
  };

  /* Unpinned tools, for a name after @. */
  let askedFor = "";
  let inCatalog = [];
  let soon = 0;
  const ask = (typed) => {
    clearTimeout(soon);
    if (!frame.dataset.offers || typed.length < 2) return;
    soon = setTimeout(async () => {
      const reply = await fetch(`${frame.dataset.offers}?q=${encodeURIComponent(typed)}`).catch(() => null);
      if (!reply?.ok) return;
      const found = (await reply.json()).tools;
      askedFor = typed;
      inCatalog = found.map((each) => ({ ...each, says: `${frame.dataset.notPinned} · ${each.says}` }));
      if (found.length) showMore();
    }, 200);
  };
  /* Not sent by a button of the remarks: a check replaces them, and the reply would change nothing elsewhere. */
  let check = null;
  const changePins = (address, values) => {
    check = null;
    const typed = Object.fromEntries(new FormData(box.form));
    htmx.ajax("POST", address, { target: "#remarks-box", swap: "innerHTML", values: { ...typed, ...values } });
  };
  const pin = (tool) => changePins(frame.dataset.pin, { tool });
  /* A check from before the pins changed is out of date. */
  box.addEventListener("htmx:beforeRequest", (event) => (check = event.detail.xhr));
  on("htmx:beforeSwap", ({ detail }) => {
    if (detail.requestConfig.elt === box && detail.xhr !== check) detail.shouldSwap = false;
  });

  /* Offers: what can be completed where the caret is. */
  const list = element("ul", { className: "offers", id: "offers", role: "listbox", ariaLabel: frame.dataset.kinds, hidden: true });
  frame.append(list);
  box.ariaAutoComplete = "list";
  box.setAttribute("aria-controls", "offers");
  let offers = [];
  let chosen = 0;

  const matching = (rows, typed) => {
    const wanted = typed.toLowerCase();
    const starts = rows.filter((row) => row.name.toLowerCase().startsWith(wanted));
    const holds = rows.filter((row) => !starts.includes(row) && row.name.toLowerCase().includes(wanted));
    /* A complete name is not offered: Enter has to make a new line. */
    return [...starts, ...holds].filter((row) => row.name !== typed).slice(0, MOST_OFFERED);
  };
  const items = () => {
    const written = [...box.value.matchAll(/\{([A-Za-z_][\w-]*)\}/g)].map((match) => match[1]);
    const required = tools.flatMap((tool) => tool.inputs.filter((each) => each.isRequired).map((each) => each.name));
    return [...new Set([...written, ...required])].map((name) => ({ name, says: frame.dataset.collected }));
  };
  const found = () => {
    const to = box.selectionStart;
    if (to !== box.selectionEnd) return [];
    const before = box.value.slice(Math.max(0, to - 200), to);
    const offer = (match, rows, text) => matching(rows, match.at(-1)).map((row) => ({ ...row, text: text(row), from: to - match.at(-1).length, to }));
    let match = before.match(/(?:^|[^\w@])@([\w-]*)$/);
    if (match) {
      const rows = matching(tools, match[1]).concat(match[1] === askedFor ? inCatalog : []);
      if (match[1] !== askedFor) ask(match[1]);
      return rows.map((row) => ({ ...row, text: `${row.name}()`, from: to - match[1].length - 1, to }));
    }
    match = before.match(/([A-Za-z_][\w-]*)\((?:[^()\n]+, ?)?([\w-]*)$/);
    let tool = match && named?.get(match[1].toLowerCase());
    if (tool) {
      const closes = box.value[to] === ")" ? "" : ")";
      const empty = match[0].endsWith("(") ? [{ name: ")", says: frame.dataset.justTheTool, text: closes, from: to, to }] : [];
      return [...offer(match, tool.inputs, (row) => row.name + closes), ...empty];
    }
    match = before.match(/([A-Za-z_][\w-]*)\(\)\.([\w-]*)$/);
    tool = match && named?.get(match[1].toLowerCase());
    if (tool) return offer(match, tool.outputs, (row) => row.name);
    match = before.match(/\{([\w-]*)$/);
    if (match) return offer(match, items(), (row) => (box.value[to] === "}" ? row.name : `${row.name}}`));
    return [];
  };

  /* Where a character is: the marks wrap as the text does. */
  const positionOf = (offset) => {
    const range = document.createRange();
    const nodes = document.createTreeWalker(marks, NodeFilter.SHOW_TEXT);
    for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
      if (offset <= node.length) {
        range.setStart(node, offset);
        break;
      }
      offset -= node.length;
    }
    return range.getClientRects()[0] || range.getBoundingClientRect();
  };
  const place = () => {
    const at = positionOf(box.selectionStart);
    const outer = frame.getBoundingClientRect();
    const bar = document.querySelector(".save-bar")?.offsetHeight ?? 0;
    const isAbove = at.bottom + list.offsetHeight + 4 > innerHeight - bar && at.top > list.offsetHeight;
    const top = isAbove ? at.top - list.offsetHeight - 4 : at.bottom + 4;
    list.style.top = `${top - outer.top}px`;
    const most = outer.width - list.offsetWidth - 8;
    list.style.left = `${Math.max(0, Math.min(at.left - outer.left, most))}px`;
  };

  const close = () => {
    offers = [];
    list.hidden = true;
    box.removeAttribute("aria-activedescendant");
  };
  const choose = (index) => {
    chosen = (index + offers.length) % offers.length;
    [...list.children].forEach((row, number) => (row.ariaSelected = number === chosen));
    list.children[chosen].scrollIntoView({ block: "nearest" });
    box.setAttribute("aria-activedescendant", `offer-${chosen}`);
  };
  const show = () => {
    offers = found();
    if (!offers.length) {
      close();
      return;
    }
    list.replaceChildren(
      ...offers.map((offer, number) => {
        const row = element("li", { id: `offer-${number}`, role: "option" });
        row.append(element("span", { className: "mono", textContent: offer.name }));
        if (offer.says) row.append(element("small", { textContent: offer.says }));
        return row;
      }),
    );
    list.hidden = false;
    place();
    choose(0);
  };
  /* Keeps the choice when rows are added. */
  const showMore = () => {
    if (document.activeElement !== box) return;
    const at = chosen;
    show();
    if (at < offers.length) choose(at);
  };
  const take = (index) => {
    const offer = offers[index];
    close();
    put(offer.text, offer.from, offer.to);
    if (offer.tool) {
      askedFor = "";
      pin(offer.tool);
    }
    if (!offer.text) box.setSelectionRange(offer.to + 1, offer.to + 1);
    show();
  };

  box.addEventListener("input", () => {
    draw();
    show();
  });
  box.addEventListener("click", close);
  box.addEventListener("blur", close);
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    const row = event.target.closest("li");
    if (row) take([...list.children].indexOf(row));
  });
  on("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key !== "s" || box.matches(":disabled")) return;
    event.preventDefault();
    box.form.requestSubmit();
  });
  box.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) choose(chosen + steps[event.key]);
    else if (event.key === "Enter") take(chosen);
    else if (event.key === "Escape") close();
    else if (event.key === "Tab" && !offers[chosen].tool) take(chosen);
    else {
      /* Tab never pins a tool: it leaves the text box. */
      if (event.key === "Tab") close();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });

  on("click", (event) => {
    const button = event.target.closest("#remarks-box button[formaction]");
    if (button) {
      event.preventDefault();
      changePins(button.getAttribute("formaction"), { [button.name]: button.value });
      return;
    }
    const insert = event.target.closest("[data-insert]");
    const editor = document.querySelector(".pane-switch [value=editor]");
    if ((insert || event.target.closest("[data-line]")) && editor) editor.checked = true;
    if (insert && !box.matches(":disabled")) put(insert.dataset.insert, box.selectionStart, box.selectionEnd);
    const line = event.target.closest("[data-line]");
    if (!line) return;
    goTo(Number(line.dataset.line), Number(line.dataset.column || 0));
    const { wrong, write } = line.dataset;
    if (!write || box.matches(":disabled")) return;
    /* The name begins there, or behind an @. */
    const from = box.value.indexOf(wrong, box.selectionStart);
    if (from >= 0 && from <= box.selectionStart + 1) put(write, from, from + wrong.length);
  });

  /* Typed, and not kept as a draft yet. */
  box.addEventListener("input", () => (box.dataset.unsent = "true"));
  box.addEventListener("htmx:afterRequest", (event) => {
    if (!event.detail.successful) return;
    delete box.dataset.unsent;
    delete box.dataset.sending;
  });
  /* Send an unsaved draft when the page is left. */
  const leave = () => box.dataset.unsent && navigator.sendBeacon(box.getAttribute("hx-post"), new FormData(box.form));
  addEventListener("pagehide", leave, { signal });
  let isDecided = false;
  /* These decide about the text. */
  on("submit", (event) => {
    if (event.defaultPrevented || !event.target.closest("#detail")) return;
    delete box.dataset.unsent;
    isDecided = true;
  });
  box.addEventListener("htmx:beforeRequest", (event) => isDecided && event.preventDefault());
  addEventListener("pageshow", () => (isDecided = false), { signal });

  const goTo = (number, column) => {
    const lines = box.value.split("\n");
    const start = lines.slice(0, number - 1).reduce((sum, each) => sum + each.length + 1, 0);
    if (lines[number - 1] === undefined) return;
    box.focus();
    box.setSelectionRange(start + column, start + lines[number - 1].length);
    const { top } = positionOf(start + column);
    if (top < 80 || top > innerHeight - 120) scrollBy({ top: top - innerHeight / 3 });
  };

  if (!CSS.supports("field-sizing", "content")) {
    const grow = () => {
      box.style.height = "auto";
      box.style.height = `${box.scrollHeight}px`;
    };
    box.addEventListener("input", grow);
    grow();
  }
  draw();
  readTools();
  on("htmx:oobAfterSwap", readTools);
  on("htmx:afterSettle", (event) => {
    if (event.target.id === "remarks-box" && document.activeElement === document.body) box.focus({ preventScroll: true });
  });
  /* What another page leads to: #line-14. */
  const asked = /^#line-(\d{1,5})$/.exec(location.hash);
  if (asked) goTo(Number(asked[1]), 0);
};

/* One editor at a time; listeners of the previous one end. */
let ending = new AbortController();
const start = () => {
  const box = document.querySelector("[data-procedure]:not([data-started])");
  if (!box) return;
  ending.abort();
  ending = new AbortController();
  box.dataset.started = "true";
  edit(box, ending.signal);
};
document.addEventListener("htmx:load", start);
start();
