"""Drives the console by keyboard only: moves the focus with Tab, and checks that the focus is visible."""

from typing import Any, Literal

from playwright.async_api import Page
from playwright.async_api import TimeoutError as NeverCame

# The editor is in a shadow root, and the focus ring may be drawn on a neighbour of the focused element.
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
ROLES: dict[str, Literal["button", "link"]] = {"button": "button", "a": "link"}


class Keys:
    """This person."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def press(self, key: str) -> None:
        """Press a key, such as `Enter`."""
        await self.page.keyboard.press(key)

    async def type(self, text: str) -> None:
        """Type into the focused element."""
        await self.page.keyboard.type(text)

    async def at(self) -> dict[str, Any]:
        """Name and tag of the focused element. Raises `AssertionError` if its focus is not visible."""
        try:
            await self.page.wait_for_function(f"() => ({AT})().seen")
        except NeverCame:
            raise AssertionError(f"the focus is not visible: {await self.page.evaluate(AT)}") from None
        found: dict[str, Any] = await self.page.evaluate(AT)
        return found

    async def go_to(self, name: str, tag: str) -> None:
        """Tab until it has the focus, once it can; the focus must be visible at every stop."""
        if tag in ROLES:  # Tab passes over what is disabled, such as a button whose preview is not there yet
            named = self.page.get_by_role(ROLES[tag], name=name, disabled=False)
            await named.or_(self.page.get_by_role("tab", name=name)).first.wait_for()
        if tag == "summary":
            await self.page.locator("summary", has_text=name).first.wait_for()
        if tag == "div":  # it may come later: an editor takes the place of a text area
            await self.page.locator(f'div[aria-label^="{name}"]').first.wait_for()
        passed = []
        for _ in range(MOST):
            await self.press("Tab")
            at = await self.at()
            passed.append(f"{at['tag']} {at['name'][:40]!r}")
            if at["tag"] == tag and at["name"].startswith(name):
                return
        raise AssertionError(f"Tab does not reach the {tag} {name!r}; it reaches " + ", ".join(passed))
