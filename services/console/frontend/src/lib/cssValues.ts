/** Reads the custom properties of the stylesheet, as they are at this element. */
export function cssValues(element: Element): (name: string) => string {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(name).trim();
}
