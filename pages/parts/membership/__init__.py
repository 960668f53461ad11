"""Parts of the Membership page: ROC curves under the guarantee's ceiling, histograms, all attacks."""
