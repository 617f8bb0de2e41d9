"""Latent Dirichlet allocation (LDA): the topics of a collection of documents, by collapsed Gibbs sampling.

Each token of each document has a topic. The model is the word-topic counts: how many tokens of each word have each
topic. In AD-LDA every worker has a shard of the documents. In an iteration it draws a new topic for each of its tokens,
against its own copy of the counts, and sends by how much its tokens changed them. The sum of all workers' changes,
added to the counts before, is the counts after. So an update has a number for each word and topic, and all numbers are
whole.

Sources: Blei, Ng, Jordan, "Latent Dirichlet Allocation", JMLR 2003; Griffiths and Steyvers, "Finding Scientific
Topics", PNAS 2004 (collapsed Gibbs sampling); Newman, Asuncion, Smyth, Welling, "Distributed Algorithms for Topic
Models", JMLR 2009 (AD-LDA); Wang, Bai, Stanton, Chen, Chang, "PLDA", AAIM 2009, which MLfabric's section 7 trains with.
"""
