# An image for hosts of the lab docker, for those who have a registry to take the first line from:
#
#   docker build --build-arg TORCH_INDEX=URL --tag testbed-worker .
#
# (URL: the index that PyTorch's "Get started" page names for Linux, pip, CPU; without it pip takes gigabytes of CUDA)
# and in the spec   docker: {image: testbed-worker}
#
# Without one, `testbed image` makes an image from this machine. What a host needs is python3 on its PATH with testbed; the
# rest is for commands on hosts (testbed exec h0 -- ping h1) and the scheme openmpi. An image of your own can start from
# this one, or do the same.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends iperf3 iproute2 iputils-ping openmpi-bin procps \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/testbed
COPY pyproject.toml README.md LICENSE ./
# PyTorch first, and by itself: it is large, and changes less often than testbed does.
ARG TORCH_INDEX
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} \
    "$(sed -n 's/^ *"\(torch==[^"]*\)".*/\1/p' pyproject.toml)"
COPY analysis analysis
COPY testbed testbed
COPY topologies topologies
COPY workloads workloads
RUN pip install --no-cache-dir '.[mpi]'
WORKDIR /
