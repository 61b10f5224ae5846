"""Checks of a loaded page for people with small windows, big fingers or few colours."""

from playwright.sync_api import Page

# Widths at which lists change from cards to tables.
WIDTHS = (720, 800, 1024)
TARGET = 24  # CSS pixels, of WCAG 2.2, 2.5.8

# Links and controls in sight that are smaller than a target, and are not a part of a sentence.
SMALL_TARGETS = """target => {
  const selector = "a[href], button, input, select, textarea, summary, [role=button], [role=option]";
  const isInSentence = node => {
    if (getComputedStyle(node).display !== "inline") return false;
    let block = node.parentElement;
    while (getComputedStyle(block).display === "inline") block = block.parentElement;
    const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    for (let text = walker.nextNode(); text; text = walker.nextNode()) {
      const isOfAnother = text.parentElement.closest(`${selector}, .visually-hidden`);
      if (/[\\p{L}]{2}/u.test(text.data) && !isOfAnother) return true;
    }
    return false;
  };
  const boxOf = node => {
    // A label is part of the target of its checkbox.
    const boxes = [node, ...(node.labels ?? [])].map(one => one.getBoundingClientRect());
    return [Math.max(...boxes.map(box => box.right)) - Math.min(...boxes.map(box => box.left)),
      Math.max(...boxes.map(box => box.bottom)) - Math.min(...boxes.map(box => box.top))];
  };
  // A box to tick may be small where nothing else can be hit instead.
  const hasRoom = node => {
    if (!["checkbox", "radio"].includes(node.type)) return false;
    const box = node.getBoundingClientRect(), x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
    return all.every(other => {
      const {left, right, top, bottom} = other.getBoundingClientRect();
      return other === node || !right || x + target / 2 <= left || x - target / 2 >= right
        || y + target / 2 <= top || y - target / 2 >= bottom;
    });
  };
  const all = [...document.querySelectorAll(selector)];
  return all.filter(node => {
    if (!node.checkVisibility({visibilityProperty: true, opacityProperty: true})) return false;
    if (node.type === "hidden" || node.closest("[inert], .visually-hidden, .skip, .swagger-ui")) return false;
    const [width, height] = boxOf(node);
    return width && Math.min(width, height) < target - .5 && !isInSentence(node) && !hasRoom(node);
  }).map(node => `${boxOf(node).map(Math.round).join(" x ")}: ${node.outerHTML.slice(0, 110)}`);
}"""

# Entries that are "here" and look like their neighbours when the user chooses all colours.
HIDDEN_CURRENT = """() => [...document.querySelectorAll(
    "[aria-current]:not([aria-current=false]), [aria-selected=true], [aria-pressed=true]")].filter(node => {
  if (!node.checkVisibility()) return false;
  const names = ["color", "backgroundColor", "outlineStyle", "fontWeight", "textDecorationLine",
    ...["Top", "Right", "Bottom", "Left"].flatMap(side => [`border${side}Color`, `border${side}Width`])];
  const look = one => ["", "::before", "::after"].map(part => {
    const style = getComputedStyle(one, part);
    return names.map(name => style[name]).join();
  }).join("|");
  const attribute = ["aria-current", "aria-selected", "aria-pressed"].find(name => node.hasAttribute(name));
  const value = node.getAttribute(attribute), before = look(node);
  node.removeAttribute(attribute);
  const isHidden = look(node) === before;
  node.setAttribute(attribute, value);
  return isHidden;
}).map(node => node.outerHTML.slice(0, 110))"""


def find_small_targets(page: Page) -> list[str]:
    return [f"smaller than {TARGET} px: {node}" for node in page.evaluate(SMALL_TARGETS, TARGET)]


def find_overflow(page: Page) -> list[str]:
    """Resize the window, and return the widths at which the page scrolls sideways."""
    window = page.viewport_size
    messages = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate("document.documentElement.scrollWidth") > width:
            messages.append(f"wider than a window of {width} px")
    if window:
        page.set_viewport_size(window)
    return messages


def find_hidden_current(page: Page) -> list[str]:
    """Return the current entries that cannot be recognized in forced colours."""
    page.emulate_media(forced_colors="active")
    messages = [f"not seen as current in forced colours: {node}" for node in page.evaluate(HIDDEN_CURRENT)]
    page.emulate_media(forced_colors="none")
    return messages
