"""The one exception of ``rescnet.data``: something about the data has to be put right by the reader."""


class DataError(ValueError):
    """A data set that cannot be found, fetched or read.

    The message is one sentence for the person reading it: which file or value was wrong, what was found
    there, and what to do. The command line prints it as it stands.
    """
