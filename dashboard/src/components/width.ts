import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Measures an element's width in pixels. Drawings use it, so that they are not stretched. */
export function useWidth(box: RefObject<Element | null>, widthMin = 240): number {
  const [width, setWidth] = useState(600);
  useEffect(() => {
    if (!box.current) return undefined;
    const watch = new ResizeObserver(([entry]) => entry && setWidth(Math.max(widthMin, entry.contentRect.width)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return width;
}
