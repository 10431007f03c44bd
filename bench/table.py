"""Turns hookbench's JSON lines into the table of docs/performance.md. Usage: table.py IDLE_MIB < results.jsonl"""

import json
import statistics
import sys

COLUMNS = ["shape", "deliveries per CPU-s", "delivered/s", "send to receive p50 / p99 ms", "lost", "duplicates", "peak MiB", "notes"]


def row(name, runs):
    # Of a noisy run the part with the bad endpoint counts, and its baseline is noted beside it.
    figures = [run.get("with_bad", run) for run in runs]

    def median(*path):
        values = []
        for figure in figures:
            for key in path:
                figure = (figure or {}).get(key)
            if figure is not None:
                values.append(figure)
        return statistics.median(values) if values else None

    def show(value, digits=0):
        return "–" if value is None else f"{value:,.{digits}f}"

    latency = " / ".join(show(median("send_to_receive_ms", p), 1) for p in ("p50", "p99"))
    notes = []
    if "baseline" in runs[0]:
        notes.append(f"p99 without the bad endpoint {runs[0]['baseline']['send_to_receive_ms']['p99']:.1f} ms")
    if median("recovered_s") is not None:
        notes.append(f"recovered in {median('recovered_s'):.2f} s; {median('unknown'):.0f} unanswered at the kill")
    bad = sum(figure["bad_signatures"] + figure["bad_requests"] + figure["rejected"] for figure in figures)
    if bad:
        notes.append(f"{bad} bad or rejected")
    # Lost and repeated deliveries are added up over the runs: a median would hide them.
    lost = sum(figure["lost"] for figure in figures)
    duplicates = sum(figure["duplicates"] for figure in figures)
    return [
        name,
        show(median("deliveries_per_cpu_s")),
        show(median("deliver_per_s")),
        latency,
        str(lost),
        str(duplicates),
        show(median("memory", "posthaste", "peak_rss_mib")),
        "; ".join(notes),
    ]


def main():
    shapes = {}
    for line in sys.stdin:
        run = json.loads(line)
        shapes.setdefault(run["label"], []).append(run)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for name, runs in shapes.items():
        print("| " + " | ".join(row(name, runs)) + " |")
    print(f"\nResident when idle: {sys.argv[1]} MiB.")


main()
