"""The alerts of deploy/prometheus/ name metrics that Pegboard reports and the manual explains."""

import re
from pathlib import Path

import yaml

from pegboard.ops import metrics

ROOT = Path(__file__).resolve().parents[2]
ALERTS = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]


def metrics_of_the_manual():
    section = (ROOT / "docs" / "operations.md").read_text().split("\n### Metrics\n")[1].split("\n### ")[0]
    return set(re.findall(r"`(pegboard_\w+)`", section))


def test_each_alert_is_about_a_metric_of_the_manual():
    assert len(RULES) > 8
    for rule in RULES:
        names = re.findall(r"pegboard_\w+", rule["expr"])
        names = [re.sub(r"_seconds_(count|bucket)$", "_seconds", name) for name in names]
        assert set(names) <= metrics_of_the_manual(), rule["alert"]
        assert names or rule["expr"] == 'up{job="pegboard"} == 0'


def test_the_manual_explains_every_gauge():
    assert {row[0] for row in metrics.GAUGES} <= metrics_of_the_manual()
