/* The command palette (Ctrl K), the list of keys (?), and g with a letter. */
const box = document.getElementById("palette");
const [field, list] = [box.querySelector("input"), box.querySelector("[data-list]")];
const options = () => [...list.querySelectorAll("[role=option]")];
let request, chosen, leader, pause;

const choose = (option) => {
  if (chosen) chosen.ariaSelected = false;
  chosen = option;
  field.setAttribute("aria-activedescendant", option?.id ?? "");
  if (!option) return;
  option.ariaSelected = true;
  option.scrollIntoView({ block: "nearest" });
};

const load = async (query) => {
  request?.abort();
  request = new AbortController();
  query.agent = location.pathname.match(/^\/agents\/([^/]+)\//)?.[1] ?? "";
  try {
    const reply = await fetch(`${box.dataset.url}?${new URLSearchParams(query)}`, { signal: request.signal });
    if (!reply.ok || reply.redirected) return;
    list.innerHTML = await reply.text();
    choose(options()[0]);
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
};

const open = (isHelp) => {
  field.parentElement.hidden = isHelp;
  field.value = "";
  box.ariaLabel = isHelp ? box.dataset.keys : field.ariaLabel;
  if (!box.open) box.showModal();
  load(isHelp ? { keys: "" } : {});
};

field.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(() => load({ q: field.value }), 60);
});
field.addEventListener("keydown", (event) => {
  const all = options();
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) choose(all.at((all.indexOf(chosen) + step) % all.length));
  else if (event.key === "Enter") chosen?.click();
  else return;
  event.preventDefault();
});
/* Keys of the page stay off while the box is open; a press beside it closes it. */
box.addEventListener("keydown", (event) => event.stopPropagation());
box.addEventListener("close", () => field.blur());
box.addEventListener("click", (event) => event.target === box && box.close());
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-palette]")) return;
  event.preventDefault();
  open(false);
});

/* Before the keys of the page: after g, a letter is a page and not a button. */
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
  const isCommand = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k";
  const page = leader && document.querySelector(`.side [data-go="${CSS.escape(event.key)}"]`);
  leader = clearTimeout(leader);
  if (box.open || (!isCommand && (isTyping || event.ctrlKey || event.metaKey || event.altKey))) return;
  if (isCommand) open(false);
  else if (event.key === "?") open(true);
  else if (page) page.click();
  else if (event.key === "g") leader = setTimeout(() => (leader = undefined), 1500);
  else return;
  event.preventDefault();
  event.stopPropagation();
}, true);
