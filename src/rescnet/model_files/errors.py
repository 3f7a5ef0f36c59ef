"""The one exception of ``rescnet.model_files``."""


class ModelFileError(ValueError):
    """A model that cannot be read, or must not be written over.

    The message is one sentence for the person reading it: which file, what is wrong with it, and what to do.
    """
