/* Dragging fills in and sends the page's forms. */
const on = document.addEventListener.bind(document);
let dragged = null;

const sendPins = (pin, to) => {
  const form = document.getElementById("move");
  const boxes = [...form.elements].filter((one) => one.name === "pins");
  const own = boxes.find((box) => box.value === pin);
  /* A ticked tool takes the other ticked ones along. */
  if (!own.checked) boxes.forEach((box) => (box.checked = box === own));
  form.elements.to.value = to;
  form.requestSubmit();
};

const sendAgent = (agent, to) => {
  const form = document.querySelector(`[data-move-agent="${CSS.escape(agent)}"]`);
  const select = form.elements.parent;
  if (agent === to || select.value === to) return;
  select.value = to;
  form.requestSubmit();
};

const nodeOf = (event) => (dragged ? event.target.closest("[data-drop]") : null);

on("dragstart", (event) => {
  dragged = event.target.closest("[data-drag-pin], [data-drag-agent]");
  if (!dragged) return;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", dragged.textContent.trim());
});
on("dragover", (event) => {
  const node = nodeOf(event);
  document.querySelectorAll(".is-over").forEach((one) => one.classList.toggle("is-over", one === node));
  if (!node || node.contains(dragged)) return;
  event.preventDefault();
  node.classList.add("is-over");
});
on("drop", (event) => {
  const node = nodeOf(event);
  if (!node || node.contains(dragged)) return;
  event.preventDefault();
  if (dragged.dataset.dragPin) sendPins(dragged.dataset.dragPin, node.dataset.drop);
  else sendAgent(dragged.dataset.dragAgent, node.dataset.drop);
});
on("dragend", () => {
  dragged = null;
  document.querySelectorAll(".is-over").forEach((one) => one.classList.remove("is-over"));
});

document.querySelectorAll("[data-drag-pin], [data-drag-agent]").forEach((one) => (one.draggable = true));
