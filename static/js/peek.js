/* A tool beside its list: opened by Space or a row's button, moved by j and k. */
const peek = document.getElementById("peek");
const isBeside = matchMedia("(width >= 64rem)");
const rows = () => [...document.querySelectorAll("#results [data-row]")];
let request, current;

const mark = (link) => {
  if (current) current.ariaCurrent = null;
  current = link;
  if (!link) return;
  link.ariaCurrent = "true";
  link.scrollIntoView({ block: "nearest" });
};

const show = async (link) => {
  request?.abort();
  const { signal } = (request = new AbortController());
  mark(link);
  const reply = await fetch(`${link.pathname}peek/`, { headers: { "HX-Request": "true" }, signal }).catch(() => null);
  if (signal.aborted) return;
  if (!reply?.ok || reply.redirected) return location.assign(link.href);
  peek.innerHTML = await reply.text();
  if (!peek.open && isBeside.matches) peek.show();
  else if (!peek.open) peek.showModal();
  peek.querySelector("h2").focus();
};

/* A search may have drawn the list again. */
const step = (by) => {
  const at = rows().findIndex((link) => link.id === current?.id);
  const next = rows()[at + by];
  if (next) show(next);
};

document.addEventListener("htmx:load", () => {
  for (const link of document.querySelectorAll("#results [data-row]:not(:has(+ .peek-open))")) {
    const title = `${peek.dataset.opens}: ${link.textContent}`;
    link.after(Object.assign(document.createElement("button"), { className: "peek-open", title, ariaLabel: title }));
  }
});
document.addEventListener("click", (event) => {
  const { target } = event;
  const mover = target.closest("#peek [data-step]");
  if (target.closest(".peek-open")) show(target.closest("tr").querySelector("[data-row]"));
  else if (mover) step(Number(mover.dataset.step));
  else if (target === peek || target.closest("#peek [data-close]")) peek.close();
});
document.addEventListener("keydown", (event) => {
  const isRow = event.key === " " && event.target.matches("#results [data-row]");
  if (isRow) show(event.target);
  else if (event.key === "Escape" && peek.open) peek.close();
  else return;
  event.preventDefault();
});
peek.addEventListener("close", () => {
  request?.abort();
  peek.replaceChildren();
  document.getElementById(current?.id)?.focus();
  mark(null);
});
