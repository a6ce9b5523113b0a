"""Measure the published tables and figures again: ``python examples/reproductions/run.py NAME ...``.

Without a name the studies are listed. Every number is printed next to the published one, with its median and quartiles
over the seeds; ``--out FOLDER`` writes the numbers of every seed as JSON. The page "The papers re-run" of the
documentation judges the recorded runs.
"""

import argparse
import json
import time
from pathlib import Path

import carvalho2006
import cawley2002
import cawley2004
import numpy as np
import pelckmans2005
import suykens2002

STUDIES = {
    name: study
    for paper in (pelckmans2005, cawley2002, cawley2004, suykens2002, carvalho2006)
    for name, study in paper.STUDIES.items()
}


def run(name, seeds=None, out=None):
    """Run one study, print its numbers and return them, one per seed."""
    measure, usual, printed = STUDIES[name]
    start = time.process_time()
    rounds = [measure(seed) for seed in range(seeds or usual)]
    numbers = {key: [float(found[key]) for found in rounds] for key in rounds[0]}
    record = {"study": name, "seeds": len(rounds), "cpu_seconds": round(time.process_time() - start, 2)}
    print(f"{name}: {record['seeds']} seeds, {record['cpu_seconds']:.0f} s")
    for key, values in numbers.items():
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
        published = f"; printed {printed[key]}" if key in printed else ""
        print(f"  {key}: {middle:.3g} ({low:.3g} to {high:.3g}){published}")
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        text = json.dumps({**record, "numbers": numbers}, indent=1, ensure_ascii=False)
        Path(out, f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return numbers


def main(arguments=None):
    """Run the studies that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a study, or a paper for all of its studies")
    parser.add_argument("--seeds", type=int, help="how many seeds; by default the number of each study")
    parser.add_argument("--out", metavar="FOLDER", help="where to write the numbers as JSON")
    options = parser.parse_args(arguments)
    if not options.names:
        print("\n".join(STUDIES))
    for wanted in options.names:
        chosen = [name for name in STUDIES if name == wanted or name.startswith(f"{wanted}-")]
        if not chosen:
            parser.error(f"there is no study {wanted!r}; there are {', '.join(STUDIES)}")
        for name in chosen:
            run(name, options.seeds, options.out)


if __name__ == "__main__":
    main()
