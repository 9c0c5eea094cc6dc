import { Button } from "../../ui/Button";
import { ProjectSelect } from "../../ui/ProjectSelect";
import { SegmentedControl } from "../../ui/SegmentedControl";
import type { By } from "./map/colourGroups";
import { DENSITIES } from "./map/layout";
import { CELL_STATES, isFiltering, NO_FILTER, NODE_STATES, type Filter } from "./map/gpuFilter";
import type { Measure } from "./map/telemetry";

export type Colouring = By | Measure;
export type Showing = "map" | "table";

interface Props {
  colouring: Colouring;
  onColouring: (colouring: Colouring) => void;
  showing: Showing;
  onShowing: (showing: Showing) => void;
  filter: Filter;
  onFilter: (filter: Filter) => void;
  projects: readonly string[];
  zoom: number;
  onZoom: (zoom: number) => void;
}

export function MapToolbar(props: Props) {
  const { filter, onFilter } = props;
  return (
    <div class="toolbar">
      <SegmentedControl legend="Show as" options={[["map", "Map"], ["table", "Table"]]} value={props.showing} onChange={props.onShowing} />
      {props.showing === "map" && (
        <SegmentedControl
          legend="Colour by"
          options={[["project", "Project"], ["class", "Class"], ["utilisation", "Utilisation"], ["memory", "Memory"]]}
          value={props.colouring}
          onChange={props.onColouring}
        />
      )}
      <label>
        <span class="visually-hidden">State</span>
        <select class="input" value={filter.state} onChange={(event) => onFilter({ ...filter, state: event.currentTarget.value })}>
          <option value="">Any state</option>
          <optgroup label="GPUs">
            {CELL_STATES.map((state) => (
              <option key={state} value={state}>
                {state}
              </option>
            ))}
          </optgroup>
          <optgroup label="Nodes">
            {NODE_STATES.map((state) => (
              <option key={state} value={state}>
                node {state}
              </option>
            ))}
          </optgroup>
        </select>
      </label>
      <ProjectSelect projects={props.projects} value={filter.project} onChange={(project) => onFilter({ ...filter, project })} />
      <label>
        <span class="visually-hidden">Node name</span>
        <input class="input" type="search" placeholder="Node name" value={filter.node} onInput={(event) => onFilter({ ...filter, node: event.currentTarget.value })} />
      </label>
      {isFiltering(filter) && (
        <Button quiet onClick={() => onFilter(NO_FILTER)}>
          Clear filter
        </Button>
      )}
      <span class="spring" />
      {props.showing === "map" && (
        <div class="zoom" role="group" aria-label="Size of the map">
          <Button title="Smaller" disabled={props.zoom <= 0} onClick={() => props.onZoom(props.zoom - 1)}>
            −<span class="visually-hidden">Smaller</span>
          </Button>
          <Button title="Larger" disabled={props.zoom >= DENSITIES.length - 1} onClick={() => props.onZoom(props.zoom + 1)}>
            +<span class="visually-hidden">Larger</span>
          </Button>
        </div>
      )}
    </div>
  );
}
