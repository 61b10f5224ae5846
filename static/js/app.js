/* Comfort on top of pages that work without it. */
const on = document.addEventListener.bind(document);
const find = document.querySelector.bind(document);
const findAll = document.querySelectorAll.bind(document);

const toast = (text) => {
  const box = find("#toast");
  if (!box) return;
  box.textContent = text;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => (box.textContent = ""), 4000);
};

const isTyping = (target) => target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;

/* `/`: the search of the page, else that of the navigation. */
const focusSearch = () => {
  const boxes = [...findAll("main [data-search]"), ...findAll("[data-search]")];
  const box = boxes.find((one) => one.checkVisibility());
  if (box) box.select();
  else location.assign("/tools/");
  box?.focus();
};

/* Arrow keys walk the rows; j and k do from anywhere. */
const walk = (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
  if (!step || isTyping(event.target)) return;
  const fromAnywhere = event.key.length === 1 ? find("[data-inbox][data-walk]") : null;
  const list = event.target.closest("[data-walk]") ?? fromAnywhere;
  if (!list?.checkVisibility()) return;
  const links = [...list.querySelectorAll("[data-row]")];
  const isInside = links.includes(event.target);
  if (!isInside && event.key.length > 1) return;
  const from = isInside ? event.target : links.find((link) => link.ariaCurrent);
  const next = links[links.indexOf(from) + (isInside || !from ? step : 0)] || (from ? null : links[0]);
  if (!next) return;
  event.preventDefault();
  next.focus();
};

/* From an editor back to its row, or to the list. */
const goBack = (from) => {
  const detail = from.closest("#detail");
  const list = find("[data-inbox][data-walk]");
  if (!detail || !list) return false;
  if (!list.checkVisibility()) detail.querySelector("[data-back]")?.click();
  else (list.querySelector("[aria-current]") || list.querySelector("[data-row]"))?.focus();
  return true;
};

on("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !isTyping(event.target)) {
    event.preventDefault();
    focusSearch();
  } else if (event.key === "Escape") {
    const menus = findAll("details.menu[open]");
    menus.forEach((menu) => {
      menu.open = false;
      menu.querySelector("summary").focus();
    });
    if (!menus.length && goBack(event.target)) event.preventDefault();
  } else if (event.key === "Enter" && !event.shiftKey && event.target.matches("[data-enter]")) {
    event.preventDefault();
    event.target.form.querySelector(".is-primary").click();
  } else if (!isTyping(event.target) && press(event.key)) {
    event.preventDefault();
  } else {
    walk(event);
  }
});

/* Presses what names this key; `x` ticks the open row. */
const press = (key) => {
  const row = find("[data-inbox] li:has([aria-current])");
  const target = key === "x" ? row?.querySelector("input") : find(`[data-key="${CSS.escape(key)}"]`);
  target?.click();
  return Boolean(target);
};

/* Marks the row that is shown. */
const markShown = () => {
  const detail = find("[data-shows]");
  const list = find("[data-inbox]");
  if (!detail || !list) return;
  list.querySelectorAll("[aria-current]").forEach((link) => link.removeAttribute("aria-current"));
  const link = list.querySelector(`[data-item="${detail.dataset.shows}"]`);
  link?.setAttribute("aria-current", "true");
  link?.closest("li").scrollIntoView({ block: "nearest" });
};
on("htmx:afterSettle", (event) => {
  if (event.target.id !== "detail") return;
  markShown();
  event.target.closest(".inbox").classList.add("is-opened");
  findAll("#detail [data-counted]").forEach(count);
  if (!find("[data-inbox]").checkVisibility()) event.target.scrollIntoView();
  find("#detail [data-focus]")?.focus({ preventScroll: true });
});

/* One box ticks its group, or the whole page. */
on("change", (event) => {
  const box = event.target;
  const group = box.closest("[data-tick-group]") ? box.closest("h3").nextElementSibling : box.closest("[data-tick-all]") && box.closest("[data-inbox]");
  group?.querySelectorAll("input[type=checkbox]").forEach((one) => (one.checked = box.checked));
});

/* The server reads this cookie. */
on("submit", (event) => {
  if (!event.target.matches("[data-theme-form]")) return;
  event.preventDefault();
  const theme = event.submitter.value;
  document.cookie = `theme=${theme}; path=/; max-age=${theme ? 31536000 : 0}; samesite=lax`;
  document.documentElement.dataset.theme = theme;
  event.target.querySelectorAll("button").forEach((button) => (button.ariaPressed = button.value === theme));
});

on("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) {
    const source = button.dataset.copy ? find(button.dataset.copy) : button.previousElementSibling;
    /* Chips stand for invisible characters. */
    await navigator.clipboard.writeText(source.dataset.exact ?? source.textContent);
    toast(find("#toast").dataset.copied);
  }
  findAll("details.menu[open]").forEach((menu) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
});

/* A cut text has a tooltip. */
on("mouseover", (event) => {
  const cut = event.target.closest(".brief, .clip");
  if (cut?.scrollHeight > cut?.clientHeight || cut?.scrollWidth > cut?.clientWidth) cut.title = cut.textContent;
});

/* Leaving with unsaved words asks first. */
const changed = new Set();
on("input", (event) => {
  const form = event.target.closest("form[data-guard]");
  if (form) changed.add(form);
  const counted = event.target.closest("[data-counted]");
  if (counted) count(counted);
});
addEventListener("beforeunload", (event) => {
  if (![...changed].some((form) => form.isConnected)) return;
  event.preventDefault();
  setTimeout(endBusy);
});

/* Before another row opens: save the draft, or ask about unsaved text. */
on("htmx:beforeRequest", (event) => {
  if (event.detail.target?.id !== "detail") return;
  const detail = event.detail.target;
  const unsent = detail.querySelector("[data-unsent]");
  const left = [...changed].filter((form) => detail.contains(form));
  if (unsent && !unsent.dataset.sending) {
    event.preventDefault();
    unsent.dataset.sending = "true";
    unsent.addEventListener("htmx:afterRequest", () => event.target.click(), { once: true });
    unsent.dispatchEvent(new Event("refresh"));
  } else if ((unsent || left.length) && !confirm(find("#toast").dataset.unsaved)) {
    event.preventDefault();
    if (unsent) delete unsent.dataset.sending;
  } else {
    left.forEach((form) => changed.delete(form));
  }
});

/* Keeps the server's words. Four characters are a token. */
const count = (field) => {
  const output = find(`#${field.id}-count`);
  const length = [...field.value].length;
  if (!output) return;
  output.hidden = !length;
  const numbers = [length, Math.ceil(length / 4)];
  output.textContent = output.textContent.replace(/\d+/g, () => numbers.shift());
  /* Nothing to restore where the text is that one. */
  const back = output.parentElement.querySelector("[data-restore]");
  if (back) back.hidden = field.value === back.dataset.text.replaceAll("\r\n", "\n");
};

on("click", (event) => {
  const button = event.target.closest("[data-restore]");
  if (!button) return;
  const field = document.getElementById(button.dataset.restore);
  field.value = button.dataset.text ?? field.defaultValue;
  for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
});

/* A form is sent once. */
on("submit", (event) => {
  const form = event.target;
  changed.delete(form);
  if (event.defaultPrevented || !form.matches("[method=post]")) return;
  if (form.ariaBusy) event.preventDefault();
  form.ariaBusy = true;
  if (!event.submitter) return;
  event.submitter.ariaBusy = true;
  if (find(":focus-visible")) sessionStorage.sent = keyOf(event.submitter);
});

/* The focus of the keyboard stays there, or goes to the mistake or message. */
const keyOf = (button) => [location.pathname, button.form.getAttribute("action"), button.textContent].join();
const { sent } = sessionStorage;
if (sent && !location.hash) {
  const said = find("#messages .banner");
  if (said) said.tabIndex = -1;
  const [button, other] = [...findAll("form button:not([type])")].filter((one) => keyOf(one) === sent);
  (find("main [aria-invalid=true]") ?? (other ? said : button) ?? said)?.focus();
  if (said?.getBoundingClientRect().bottom < 0) toast(said.textContent);
}
delete sessionStorage.sent;
const endBusy = () => findAll("[aria-busy]").forEach((one) => (one.ariaBusy = null));
addEventListener("pageshow", endBusy);

/* Ticked tools, stored across pages. */
const KEY = "ticked";
const MAX_TICKED = 20;
const MAX_COMPARED = 4;
const chosen = () => {
  try {
    return JSON.parse(localStorage.getItem(KEY)) || [];
  } catch {
    return [];
  }
};
const element = (tag, properties) => Object.assign(document.createElement(tag), properties);
const drawTray = () => {
  const tools = chosen();
  findAll("[data-compare]").forEach((box) => {
    box.checked = tools.some((tool) => tool.id === box.value);
    box.disabled = !box.checked && tools.length >= MAX_TICKED;
  });
  const tray = document.getElementById("tray");
  if (!tray) return;
  tray.hidden = tools.length === 0;
  tray.querySelector("[data-tray-list]").replaceChildren(
    ...tools.map((tool) => element("span", { className: "label", textContent: tool.name })),
    ...tools.map((tool) => element("input", { type: "hidden", name: "tool", value: tool.id })),
  );
  const link = tray.querySelector("[data-tray-go]");
  link.href = `${link.dataset.base}?${tools.map((tool) => `tool=${tool.id}`).join("&")}`;
  link.hidden = tools.length < 2 || tools.length > MAX_COMPARED;
  tray.querySelector("[data-tray-note]").textContent =
    tools.length > MAX_COMPARED ? tray.dataset.tooMany : "";
};
on("submit", (event) => {
  if (event.target.id === "tray") localStorage.removeItem(KEY);
});
on("change", (event) => {
  if (!event.target.matches("[data-compare]")) return;
  const box = event.target;
  const rest = chosen().filter((tool) => tool.id !== box.value);
  const tools = box.checked ? [...rest, { id: box.value, name: box.closest("tr").querySelector("[data-row]").textContent }] : rest;
  localStorage.setItem(KEY, JSON.stringify(tools.slice(0, MAX_TICKED)));
  drawTray();
});
on("click", (event) => {
  if (!event.target.closest("[data-tray-clear]")) return;
  localStorage.removeItem(KEY);
  drawTray();
});

/* Fill in partial output of a call. The page polls, too. */
let followed = null;
const follow = () => {
  const part = find("[data-follow]");
  if (followed && followed.url !== (part && new URL(part.dataset.follow, document.baseURI).href)) {
    followed.close();
    followed = null;
  }
  if (!part || followed || !window.EventSource) return;
  followed = new EventSource(part.dataset.follow);
  followed.addEventListener("partial", (event) => {
    const now = find("[data-follow]");
    if (now) now.innerHTML = JSON.parse(event.data);
  });
  followed.addEventListener("ended", () => {
    followed.close();
    find("[data-follow]")?.closest("[hx-trigger]")?.dispatchEvent(new Event("ended"));
  });
};

on("htmx:load", () => drawTray());
on("htmx:load", follow);
on("DOMContentLoaded", () => {
  drawTray();
  follow();
  const tab = find(".tabs [aria-current]");
  if (tab) tab.parentElement.scrollLeft = tab.offsetLeft + tab.offsetWidth / 2 - tab.parentElement.offsetWidth / 2;
  findAll("[data-counted]").forEach(count);
});
