/* The page for adding tools, as a dialog. */
const on = document.addEventListener.bind(document);
on("click", async (event) => {
  const link = event.target.closest("[data-dialog]");
  const dialog = link ? document.getElementById(link.dataset.dialog) : event.target.closest("dialog");
  if (!dialog) return;
  if (!link) {
    if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (!dialog.hasChildNodes()) {
    /* What is typed before that is not searched for. */
    const settled = new Promise((resolve) => dialog.addEventListener("htmx:afterSettle", resolve, { once: true }));
    await htmx.ajax("GET", link.href, { target: dialog, swap: "innerHTML" });
    await settled;
  }
  if (dialog.open) return;
  dialog.showModal();
  dialog.querySelector("[data-search]")?.focus();
});

/* Keep ticks made while results loaded. */
const since = new Map();
const noteTick = (event) => {
  const box = event.target;
  if (box.matches("#add-choice input[type=checkbox]")) since.set(box.id, [box.value, box.checked]);
};
on("change", noteTick, true);
on("htmx:beforeRequest", (event) => {
  if (event.target.closest("#adding")) since.clear();
});

on("htmx:afterSwap", (event) => {
  const target = event.detail.elt ?? event.target;
  if (!["add-choice", "add-tray"].includes(target.id)) return;
  const choice = document.getElementById("add-choice");
  if (target.id === "add-choice" && since.size) {
    for (const [id, [value, checked]] of since) {
      const box = document.getElementById(id);
      if (box) box.checked = checked;
      else if (checked) choice.prepend(Object.assign(document.createElement("input"), { type: "hidden", name: "tool", value }));
    }
    since.clear();
    choice.querySelector("[hx-post]").dispatchEvent(new Event("change", { bubbles: true }));
  }
  const dialog = choice.closest("dialog");
  if (dialog && document.querySelector("#add-tray[data-pinned]")) dialog.dataset.stale = "";
  /* Focus the tray when the focused button is gone. */
  if (document.activeElement === document.body) document.getElementById("add-panel").focus({ preventScroll: true });
});

/* The page below may show older pins. */
on("close", (event) => "stale" in event.target.dataset && location.reload(), true);
