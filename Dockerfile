# An image for hosts of the lab docker, for those who have a registry to take the first line from:
#
#   docker build --build-arg TORCH_INDEX=URL --tag testbed-worker .
#
# (URL: the index that PyTorch's "Get started" page names for Linux, pip, CPU; without it pip takes gigabytes of CUDA)
# and in the spec   docker: {image: testbed-worker}
#
# BASE names the image by its digest: a tag can be moved to another image, a digest cannot. To take a newer one,
#
#   docker buildx imagetools inspect python:3.11-slim-bookworm
#
# tells its digest for --build-arg BASE=python:3.11-slim-bookworm@sha256:DIGEST. Python's packages are those of requirements/,
# whose hashes pip checks; with --build-arg TORCH_SHA256=HEX also PyTorch's, which differs from index to index.
#
# Without a registry, `testbed image` makes an image from this machine. What a host needs is python3 on its PATH with testbed; the
# rest is for commands on hosts (testbed exec h0 -- ping h1) and the scheme openmpi. An image of your own can start from
# this one, or do the same.
ARG BASE=python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
FROM ${BASE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends iperf3 iproute2 iputils-ping openmpi-bin procps \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/testbed
COPY pyproject.toml README.md LICENSE ./
COPY requirements requirements
# PyTorch first, and by itself: it is large, and changes less often than testbed does.
ARG TORCH_INDEX
ARG TORCH_SHA256
RUN echo "$(cat requirements/torch.txt)${TORCH_SHA256:+ --hash=sha256:${TORCH_SHA256}}" >torch.txt \
    && pip install --no-cache-dir --no-deps ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} --requirement torch.txt
RUN sed -n '/^mpi4py==/,/[^\\]$/p' requirements/test.txt >mpi.txt \
    && pip install --no-cache-dir --require-hashes --requirement requirements/run.txt --requirement mpi.txt
COPY analysis analysis
COPY testbed testbed
COPY topologies topologies
COPY workloads workloads
RUN pip install --no-cache-dir --no-deps --no-build-isolation .
WORKDIR /
