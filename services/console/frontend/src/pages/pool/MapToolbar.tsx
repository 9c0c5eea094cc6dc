import { Button, Options, ProjectSelect, SearchInput, SegmentedControl, SignButton } from "../../ui";
import type { By } from "../../shared/colourGroups";
import { CELL_STATES, isFiltering, NO_FILTER, NODE_STATES, type Filter } from "./map/gpuFilter";
import { DENSITIES } from "./map/layout";
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
    <div class="row toolbar">
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
            <Options of={CELL_STATES} />
          </optgroup>
          <optgroup label="Nodes">
            <Options of={NODE_STATES.map((state) => [state, `node ${state}`])} />
          </optgroup>
        </select>
      </label>
      <ProjectSelect projects={props.projects} value={filter.project} onChange={(project) => onFilter({ ...filter, project })} />
      <SearchInput label="Node name" value={filter.node} onInput={(node) => onFilter({ ...filter, node })} />
      {isFiltering(filter) && (
        <Button quiet onClick={() => onFilter(NO_FILTER)}>
          Clear filter
        </Button>
      )}
      <span class="spring" />
      {props.showing === "map" && (
        <div class="zoom" role="group" aria-label="Size of the map">
          <SignButton sign="−" label="Smaller" disabled={props.zoom <= 0} onClick={() => props.onZoom(props.zoom - 1)} />
          <SignButton sign="+" label="Larger" disabled={props.zoom >= DENSITIES.length - 1} onClick={() => props.onZoom(props.zoom + 1)} />
        </div>
      )}
    </div>
  );
}
