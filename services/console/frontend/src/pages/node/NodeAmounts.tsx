import type { LiveNode } from "../../api";
import { bytes } from "../../lib";
import { Bar } from "../../ui";

/** CPU and memory of a node: what is allocated, as bars. */
export function NodeAmounts({ node }: { node: LiveNode }) {
  const cores = (milli: number): string => `${Math.round(milli / 100) / 10}`;
  return (
    <>
      <Amount name="CPU" used={node.cpu_milli - node.cpu_milli_free} of={node.cpu_milli} text={cores} />
      <Amount name="Memory" used={node.memory_bytes - node.memory_bytes_free} of={node.memory_bytes} text={bytes} />
    </>
  );
}

function Amount({ name, used, of, text }: { name: string; used: number; of: number; text: (value: number) => string }) {
  const words = `${text(used)} of ${text(of)} allocated`;
  return (
    <div>
      <div class="amount-line">
        <h3>{name}</h3> <span class="soft number">{words}</span>
      </div>
      <Bar used={used} quota={null} of={of} words={`${name}: ${words}`} />
    </div>
  );
}
