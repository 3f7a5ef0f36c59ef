"""Eight stages of a layer: pure functions of tensors, on any device and in any floating type.

=====  ====================  ========================================================
stage  module                content
=====  ====================  ========================================================
–      ``augment``           changed copies of the training images
1      ``images``            min-max scaling; ``[maps ; image]``
2      ``patches``           k×k patches and their moments
3      ``filters``           filter banks: PCA, stacked-LDA and others, mixtures
4      ``convolution``       same-size maps; ReLU for the pooling branch
5      ``second_order``      z-scored blocks → channel covariance
       ``histograms``        block histograms of binary codes, PCANet's alternative
6      ``pooling``           pyramid cells; matrix logarithms of their correlations
7      ``moments``           streamed sums over images; rows for few images
       ``discriminant``      LDA and ridge heads solved from the sums; posteriors
8      ``residual``          residual → labels and signs; the update
=====  ====================  ========================================================
"""
