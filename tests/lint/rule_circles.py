"""Files do not call each other in a circle: of two files at most one calls the other, directly or not. A circle is one
file in pieces, and none of them can be read or tested alone. KNOWN lists the remaining circles by their layers; a new
file must not join one.
"""

from measure import call_edges, circles, functions_of

# Layer: the most files its largest circle may have.
KNOWN = {}


def problems(tree):
    functions = [one for path in tree.paths("src/*.c") for one in functions_of(path, tree.text(path))]
    for circle in circles(call_edges(functions)):
        layers = {"/".join(path.split("/")[:2]) for path in circle}
        if len(layers) > 1 or len(circle) > KNOWN.get(layers.pop(), 0):
            yield circle[0], 1, f"these files call each other in a circle: {', '.join(circle)}"
