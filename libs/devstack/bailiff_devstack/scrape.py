"""A scrape file of Prometheus for the services of a stack, with the job names that the rules and dashboards use."""

from collections.abc import Mapping
from pathlib import Path

import yaml

RULES = Path(__file__).parents[3] / "deploy/prometheus/rules.yml"


def write_scrape_file(path: Path, addresses: Mapping[str, str]) -> None:
    """Writes the file. addresses: URL by service."""
    document = {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "rule_files": [str(RULES)] if RULES.exists() else [],
        "scrape_configs": [
            {"job_name": f"bailiff-{name}", "static_configs": [{"targets": [url.removeprefix("http://")]}]}
            for name, url in addresses.items()
        ],
    }
    path.write_text(f"# Written by make up: prometheus --config.file={path}\n" + yaml.safe_dump(document, sort_keys=False))


def metrics_lines(addresses: Mapping[str, str]) -> str:
    """The metrics address of each service, a line each."""
    return "\n".join(f"  {name:<18} {url}/metrics" for name, url in addresses.items())
