"""The eight stages of a layer, one file per arrow of the paper's figure 1.

Every function here is pure: tensors in, tensors out, on whatever device and in whatever floating type they come.

=====  ====================  =====================================================
stage  file                  what it computes
=====  ====================  =====================================================
1      ``images``            min-max scaling; ``[maps ; image]``
2      ``patches``           k×k patches and their moments
3      ``filters``           filter banks: PCA, stacked-LDA, mixtures
4      ``convolution``       same-size maps, and their rectified copy for pooling
5      ``second_order``      z-scored blocks → channel covariance
6      ``pyramid``           4×4, 2×2 and 1×1 cells
7      ``moments``,          streamed sums, and the heads solved from them
       ``discriminant``
8      ``residual``          residual → labels and signs; the update; the schedule
=====  ====================  =====================================================
"""
