"""What can be computed but is most likely not what was meant: a warning with a name of its own."""


class DoubtfulInput(UserWarning):
    """Images or labels that look like a mistake.

    The message is one sentence: what was found, with the value, and what to do. The command line prints it as it
    stands.
    """
