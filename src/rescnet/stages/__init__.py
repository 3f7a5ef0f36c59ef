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
6      ``pooling``           pyramid cells; stages 5 and 6 together
       ``matrix_sqrt``       matrix square root of each cell's correlations
7      ``moments``           streamed sums over images
       ``dual_moments``      the same for fewer images than features
       ``discriminant``      LDA and ridge heads solved from the sums; posteriors
       ``cholesky``          solver of symmetric positive definite systems
       ``mixed_precision``   half-precision products with float32 sums
8      ``residual``          residual → labels and signs; the update
–      ``gaussian_kernel``   kernel of the readout, over the features of all layers
=====  ====================  ========================================================
"""
