"""Turns hookbench's JSON lines, and those of nodes.py, into the tables of docs/performance.md. Fails where a goal is missed.

usage: table.py IDLE_MIB NODES < results.jsonl
"""

import json
import statistics
import sys

COLUMNS = ["shape", "deliveries per CPU-s", "delivered/s", "send to receive p50 / p99 ms", "lost", "duplicates", "peak MiB", "notes"]


POSTGRES = "@postgres"
# Deliveries per CPU-second, the database included, and what two nodes deliver of what one does.
GOALS = {"one-32@postgres": 6000, "keyed-200@postgres": 4500}
GOAL_OF_TWO_NODES = 1.6
SIDE_BY_SIDE = [
    "shape",
    "deliveries per CPU-s: SQLite",
    "PostgreSQL, the database included",
    "of that the database",
    "delivered/s: SQLite",
    "PostgreSQL",
    "send to receive p50 / p99 ms: SQLite",
    "PostgreSQL",
]


def show(value, digits=0):
    return "–" if value is None else f"{value:,.{digits}f}"


def median(figures, *path):
    values = []
    for figure in figures:
        for key in path:
            figure = (figure or {}).get(key)
        if figure is not None:
            values.append(figure)
    return statistics.median(values) if values else None


def latency(figures):
    return " / ".join(show(median(figures, "send_to_receive_ms", p), 1) for p in ("p50", "p99"))


def row(name, runs):
    # Of a noisy run the part with the bad endpoint counts, and its baseline is noted beside it.
    figures = [run.get("with_bad", run) for run in runs]
    notes = []
    if "baseline" in runs[0]:
        notes.append(f"p99 without the bad endpoint {runs[0]['baseline']['send_to_receive_ms']['p99']:.1f} ms")
    if median(figures, "recovered_s") is not None:
        notes.append(f"recovered in {median(figures, 'recovered_s'):.2f} s; {median(figures, 'unknown'):.0f} unanswered at the kill")
    bad = sum(figure["bad_signatures"] + figure["bad_requests"] + figure["rejected"] for figure in figures)
    if bad:
        notes.append(f"{bad} bad or rejected")
    # Lost and repeated deliveries are added up over the runs: a median would hide them.
    lost = sum(figure["lost"] for figure in figures)
    duplicates = sum(figure["duplicates"] for figure in figures)
    return [
        name,
        show(median(figures, "deliveries_per_cpu_s")),
        show(median(figures, "deliver_per_s")),
        latency(figures),
        str(lost),
        str(duplicates),
        show(median(figures, "memory", "posthaste", "peak_rss_mib")),
        "; ".join(notes),
    ]


def side_by_side(name, file, server):
    database = [run["cpu_s"]["postgres"] / sum(run["cpu_s"].values()) for run in server]
    return [
        name,
        show(median(file, "deliveries_per_cpu_s")),
        show(median(server, "deliveries_per_cpu_s")),
        f"{statistics.median(database):.0%}",
        show(median(file, "deliver_per_s")),
        show(median(server, "deliver_per_s")),
        latency(file),
        latency(server),
    ]


def print_table(columns, rows):
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


def print_nodes(path):
    """What one node delivered and what two did, in turn; answers how many times as much that is, if it was measured."""
    with open(path) as lines:
        runs = [json.loads(line) for line in lines]
    if not runs:
        return None
    rates = {count: [run["delivered_per_s"] for run in runs if run["nodes"] == count] for count in (1, 2)}
    ratio = statistics.median(rates[2]) / statistics.median(rates[1])
    print_table(["nodes", "delivered/s"], [[str(count), ", ".join(show(rate) for rate in rates[count])] for count in rates])
    print(f"\nTwo nodes deliver {ratio:.2f} times what one does (medians).")
    return ratio


def main():
    shapes = {}
    for line in sys.stdin:
        run = json.loads(line)
        shapes.setdefault(run["label"], []).append(run)
    if shapes:
        print_table(COLUMNS, [row(name, runs) for name, runs in shapes.items()])
        print(f"\nResident when idle: {sys.argv[1]} MiB.\n")
    both = [name for name in shapes if name + POSTGRES in shapes]
    if both:
        print_table(SIDE_BY_SIDE, [side_by_side(name, shapes[name], shapes[name + POSTGRES]) for name in both])
        print()
    ratio = print_nodes(sys.argv[2])
    missed = [
        f"{name}: {show(reached)} deliveries per CPU-second, and {goal:,} are the goal"
        for name, goal in GOALS.items()
        if name in shapes and (reached := median(shapes[name], "deliveries_per_cpu_s") or 0) < goal
    ]
    if ratio is not None and ratio < GOAL_OF_TWO_NODES:
        missed.append(f"nodes: {ratio:.2f} times what one delivers, and {GOAL_OF_TWO_NODES} are the goal")
    if missed:
        sys.exit("\n".join(["missed:", *missed]))


main()
