"""Drives the console by keyboard only: moves the focus with Tab, and checks that the focus is visible."""

from typing import Any

from playwright.async_api import Page
from playwright.async_api import TimeoutError as NeverCame

# The editor lives in a shadow root, and a ring may be around what belongs to the focused element instead of itself.
AT = """
() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  const name = at.getAttribute('aria-label') ?? at.labels?.[0]?.textContent ?? at.textContent ?? '';
  const box = at.getBoundingClientRect();
  const ringed = [at, at.nextElementSibling, at.closest('.cm-editor')].some(each => {
    const style = each && getComputedStyle(each);
    return style && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  });
  const within = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return { name: name.trim(), tag: at.tagName.toLowerCase(), seen: at === document.body || (ringed && within) };
}
"""
MOST = 80


class Keys:
    """This person."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def press(self, key: str) -> None:
        """As in `Enter`."""
        await self.page.keyboard.press(key)

    async def type(self, text: str) -> None:
        """Into what has the focus."""
        await self.page.keyboard.type(text)

    async def at(self) -> dict[str, Any]:
        """What has the focus: its name and tag. Raises `AssertionError` where a person would not see that it has it."""
        try:
            await self.page.wait_for_function(f"() => ({AT})().seen")
        except NeverCame:
            raise AssertionError(f"the focus cannot be seen: {await self.page.evaluate(AT)}") from None
        found: dict[str, Any] = await self.page.evaluate(AT)
        return found

    async def go_to(self, name: str, tag: str) -> None:
        """Tab until it has the focus; wherever that comes on the way, it can be seen."""
        passed = []
        for _ in range(MOST):
            await self.press("Tab")
            at = await self.at()
            passed.append(f"{at['tag']} {at['name'][:40]!r}")
            if at["tag"] == tag and at["name"].startswith(name):
                return
        raise AssertionError(f"Tab does not come to the {tag} {name!r}, but to " + ", ".join(passed))
