"""Computes the outcomes that the memory consistency model of PTX allows for a litmus test.

Usage: model.py FILE...   compares with the line "allowed:" of each file; fails where one differs

The model is the axiomatic one of the PTX ISA (chapter "Memory Consistency Model"): all executions of a test are enumerated, what each
read reads from, the coherence order of each place and the order of fence.sc, and those that contradict an axiom are dropped. It knows
nothing of the emulator.

The coherence order of the PTX ISA is partial: it does not relate writes that race. Here it is total, one execution for each way to complete
it. Only the writes of atomic-cta race, and its outcomes are the same either way: nothing reads the place once both have written it.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import itertools
import re
import sys

WEAK, CTA, CLUSTER, GPU = range(4)
SCOPES = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "sys": GPU, "gl": GPU}
VALUES = range(5)


class Event:
    def __init__(self, thread, number, kind, place=None, value=None, **more):
        self.thread, self.number, self.kind, self.place, self.value = thread, number, kind, place, value
        self.scope = more.get("scope", WEAK)
        self.acquire, self.release, self.sc = more.get("acquire"), more.get("release"), more.get("sc")
        self.read_value = more.get("read_value")
        self.depends = more.get("depends", ())

    @property
    def reads(self):
        return self.kind in ("R", "U")

    @property
    def writes(self):
        return self.kind in ("W", "U")


def header(text, name):
    return re.search(rf"^// {name}: (.*)$", text, re.M).group(1)


def threads_of(text):
    """The instructions of each thread, with labels."""
    body = text[text.index("\nP0:") + 1 :]
    parts = re.split(r"^P\d+:\n", body, flags=re.M)[1:]
    return [[line.strip() for line in part.splitlines() if line.strip() and line.strip() not in ("ret;", "}")] for part in parts]


def semantics(words):
    scope = next((SCOPES[w] for w in words if w in SCOPES), None)
    return scope


def run(thread, lines, answers):
    """The events of a thread whose reads give `answers`, and its registers. None where an answer is left over."""
    registers, origin, events = {}, {}, []
    answers, skip, predicate, control = list(answers), None, None, set()
    number = 0
    for line in lines:
        if skip:
            skip = None if line == skip + ":" else skip
            continue
        if line.endswith(":"):
            continue
        line = re.sub(r"^@!%q ", "", line)
        if "[o+" in line:
            continue
        number += 1
        if match := re.match(r"setp\.ne\.u32 %p, (\w+), (\d+);", line):
            predicate = registers[match[1]] != int(match[2])
            control |= origin.get(match[1], set())
        elif match := re.match(r"@%p bra (\w+);", line):
            skip = match[1] if predicate else None
        elif match := re.match(r"mov\.u32 (\w+), (\d+);", line):
            registers[match[1]], origin[match[1]] = int(match[2]), set()
        elif line.startswith("bar.sync"):
            events.append(Event(thread, number, "B"))
        elif match := re.match(r"(fence|membar)\.([\w.]+);", line):
            words = match[2].split(".")
            events.append(Event(thread, number, "F", scope=semantics(words), acquire=True, release=True, sc="sc" in words or match[1] == "membar"))
        elif match := re.match(r"(ld|st|atom)([\w.]*)\.global(?:\.add)?\.u32 (.*);", line):
            words = match[2].split(".")[1:]
            scope = semantics(words)
            if scope is None:
                scope = GPU if match[1] == "atom" or "volatile" in words else WEAK
            more = {"scope": scope, "acquire": "acquire" in words, "release": "release" in words}
            operands = [o.strip(" []") for o in match[3].split(",")]
            if match[1] == "st":
                place, value = operands
                depends = control | origin.get(value, set())
                value = registers[value] if value in registers else int(value)
                events.append(Event(thread, number, "W", place, value, depends=depends, **more))
                continue
            if not answers:
                return None
            answer = answers.pop(0)
            registers[operands[0]], origin[operands[0]] = answer, {(thread, number)}
            if match[1] == "ld":
                events.append(Event(thread, number, "R", operands[1], None, read_value=answer, depends=set(control), **more))
            else:
                events.append(Event(thread, number, "U", operands[1], answer + int(operands[2]), read_value=answer, depends=set(control), **more))
        else:
            raise SystemExit(f"model.py: what is {line!r}?")
    return None if answers else (events, registers)


def executions_of(thread, lines):
    """All ways in which a thread may run, by what its reads give."""
    reads = sum(bool(re.match(r"(@!%q )?(ld|atom)", line)) and "[o+" not in line for line in lines)
    found = []
    for count in range(reads + 1):
        for answers in itertools.product(VALUES, repeat=count):
            done = run(thread, lines, answers)
            if done:
                found.append(done)
    return found


def closure(pairs):
    pairs = set(pairs)
    while True:
        by_first = {}
        for a, b in pairs:
            by_first.setdefault(a, set()).add(b)
        more = {(a, c) for a, b in pairs for c in by_first.get(b, ())} - pairs
        if not more:
            return pairs
        pairs |= more


def acyclic(pairs):
    return all(a != b for a, b in closure(pairs))


def is_allowed(events, rf, co, sc, distance):
    """Whether no axiom is contradicted. Events are numbered; rf: read -> write; co, sc: pairs."""
    strong = lambda e: e.scope > WEAK
    init = lambda e: e.thread < 0
    number = {e: i for i, e in enumerate(events)}
    po = {(a, b) for a in events for b in events if a.thread == b.thread and not init(a) and a.number < b.number}

    def morally(a, b):
        if a.thread == b.thread or init(a) or init(b):
            return True
        needed = distance(a.thread, b.thread)
        return strong(a) and strong(b) and a.scope >= needed and b.scope >= needed

    obs = closure({(w, r) for r, w in rf.items() if morally(w, r)})
    obs = {(a, b) for a, b in obs}
    releases = [(e, e) for e in events if e.writes and e.release]
    releases += [(a, b) for a, b in po if a.release and b.writes and strong(b) and (a.kind == "F" or a.place == b.place)]
    acquires = [(e, e) for e in events if e.reads and e.acquire]
    acquires += [(a, b) for a, b in po if b.acquire and a.reads and strong(a) and (b.kind == "F" or a.place == b.place)]
    sync = {(first, last) for first, w in releases for r, last in acquires if (w, r) in obs and first.thread != last.thread and morally(first, last)}
    sync |= sc
    sync |= {(a, b) for a in events for b in events if a.kind == b.kind == "B" and a.thread != b.thread}
    # What comes before a barrier comes before what follows any other arrival at it.
    barriers = {(a, b) for a, b in sync if a.kind == "B"}
    base = po | (sync - barriers)
    base |= {(a, d) for b, c in barriers for a, x in po if x is b for y, d in po if y is c}
    base |= {(a, b) for a in events for b in events if init(a) and not init(b)}
    base = closure(base)
    cause = base | {(x, y) for x, z in obs for z2, y in base if z is z2}
    fr = {(r, w) for r, source in rf.items() for w in events if (source, w) in co and w is not r}
    reads_from = {(w, r) for r, w in rf.items()}
    local = {(a, b) for a, b in po if a.place and a.place == b.place}
    # Coherence; Fence-SC
    if any((b, a) in co for a, b in cause if a.writes and b.writes and a.place == b.place):
        return False
    if any((b, a) in sc for a, b in cause if a.sc and b.sc):
        return False
    # Atomicity
    for r, source in rf.items():
        if r.kind == "U" and any((source, w) in co and (w, r) in co and morally(w, r) for w in events):
            return False
    # No thin air
    index = {(e.thread, e.number): e for e in events}
    if not acyclic(reads_from | {(index[d], e) for e in events for d in e.depends}):
        return False
    # SC per location
    talk = {(a, b) for a, b in reads_from | co | fr if morally(a, b) and not init(a) and not init(b)}
    if not acyclic(talk | local):
        return False
    # Causality
    if any((r, w) in cause for w, r in reads_from):
        return False
    return not any((w, r) in cause for r, w in fr)


def orders(elements):
    for order in itertools.permutations(elements):
        yield {(a, b) for i, a in enumerate(order) for b in order[i + 1 :]}


def allowed(path):
    """The outcomes of a test, sorted."""
    with open(path) as file:
        text = file.read()
    place, wanted = header(text, "place"), header(text, "outcome").split()
    lines = threads_of(text)
    needed = {"warp": CTA, "cta": GPU, "cluster": CLUSTER}[place]
    outcomes = set()
    for chosen in itertools.product(*(executions_of(i, thread) for i, thread in enumerate(lines))):
        events = [e for done, _ in chosen for e in done]
        registers = {r: v for _, found in chosen for r, v in found.items()}
        places = sorted({e.place for e in events if e.place})
        starts = {p: Event(-1, i, "W", p, 0) for i, p in enumerate(places)}
        everything = list(starts.values()) + events
        sources = []
        for e in events:
            if e.reads:
                sources.append([(e, w) for w in everything if w.writes and w is not e and w.place == e.place and w.value == e.read_value])
        fences = [e for e in events if e.sc]
        writes = {p: [e for e in events if e.writes and e.place == p] for p in places}
        for rf in itertools.product(*sources):
            for co_parts in itertools.product(*(list(orders(writes[p])) for p in places)):
                co = set().union(*co_parts) | {(starts[p], w) for p in places for w in writes[p]}
                last = {p: next((w.value for w in writes[p] if all((w, v) not in co for v in writes[p])), 0) for p in places}
                outcome = tuple(registers[o] if o in registers else last[o] for o in wanted)
                if outcome in outcomes:
                    continue
                for sc in orders(fences):
                    sc = {(a, b) for a, b in sc if a.thread == b.thread or (a.scope >= needed and b.scope >= needed)}
                    if is_allowed(everything, dict(rf), co, sc, lambda a, b: needed):
                        outcomes.add(outcome)
                        break
    return sorted(outcomes)


def main():
    failed = False
    for path in sys.argv[1:]:
        with open(path) as file:
            stated = [tuple(map(int, part.split())) for part in header(file.read(), "allowed").split(";")]
        found = allowed(path)
        if sorted(stated) != found:
            failed = True
            print(f"{path}: says {stated}, the model allows {found}")
    print(f"{len(sys.argv) - 1} tests: " + ("some differ from the model" if failed else "each says what the model allows"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
