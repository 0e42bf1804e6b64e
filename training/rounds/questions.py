"""The names of the questions that server and clients both know, and the prefixes of their tensors."""

JUDGE = "judge"  # the question to the server of how good an upload is

OPEN = "open"

SHARED_STATE = (
    "given/"  # on the wire and in a client's store, before the names of what the objective prepared
)

FIT, EVALUATE, COLLECT, TEST = "fit", "evaluate", "collect", "test"

COMPARE = "compare"  # counts of answers that two models give differently

NEIGHBOURS = "neighbours"  # counts of answers by the client's own training pictures

EMBED = "embed"  # make features of all pictures, with an encoder that will not learn

MOMENTS = "moments"  # sums over what several encoders make of pictures, for their projection
GRAM = "gram"  # of answers, before a block's number, as is SUM
SPREAD, GRADIENT = "spread", "gradient"  # sums over what a head takes: of rows and squares, or its gradient
WEIGHT, BIAS = "weight", "bias"  # of a head, in a question, and of its gradient, in the answer
SUBGROUP = "subgroup"  # in their options, where they are over one alone
LOSS, MASS, SUM, SQUARES = "loss", "mass", "sum", "squares"  # of answers

IN_WORDS = {  # for who waits
    "census": "starting, and counting pictures",
    FIT: "training",
    EVALUATE: "evaluating",
    TEST: "testing",
    EMBED: "making features",
    MOMENTS: "summing features",
    GRADIENT: "fitting the head",
}
