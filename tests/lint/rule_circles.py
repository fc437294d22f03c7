"""Files do not call each other in a circle: of two files at most one calls the other, directly or not. A circle is
one file in pieces, which nobody can read or test alone. KNOWN lists the circles that are left, by their folders; a new
file may not join one.
"""

from measure import call_edges, circles, functions_of

# Folder: the most files its largest circle may have.
KNOWN = {"src/dispatch": 17, "src/handler": 5}


def problems(tree):
    functions = [one for path in tree.paths("src/*.c") for one in functions_of(path, tree.text(path))]
    for circle in circles(call_edges(functions)):
        folder = circle[0].rpartition("/")[0]
        inside = all(path.rpartition("/")[0] == folder for path in circle)
        if not inside or len(circle) > KNOWN.get(folder, 0):
            yield circle[0], 1, f"these files call each other in a circle: {', '.join(circle)}"
