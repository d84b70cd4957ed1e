# Every third-party source that is compiled with cria: the one place that names versions.
#
# name | Debian source package | its upstream version | suite | SHA-256 of the orig tarball | upstream repository | commit
#
# scripts/setup.sh reads these lines and takes the tarballs through apt; where no tarball was unpacked
# cmake/Dependencies.cmake fetches the same commits from upstream.
set(CRIA_DEPENDENCIES
  "xnnpack|xnnpack|0.0~git20241108.4ea82e5|trixie|90bde2caef0f880f627bab0dc805a86c4b8070cd98e3243db3046ab3f3be1a99|https://github.com/google/XNNPACK.git|4ea82e595b36106653175dcb04b2aa532660d0d8"
  "cpuinfo|cpuinfo|0.0~git20250905.877328f|forky|557ca404a3836b9f335a3a06b65ff9fe9dbaaefab7fb5c0185f53d9f33615a10|https://github.com/pytorch/cpuinfo.git|877328f188a3c7d1fa855871a278eb48d530c4c0"
  "pthreadpool|pthreadpool|0.0~git20240616.560c60d|trixie|4cc3cbd933b28131d2a34edc54f76af9fb41bc490af5eae1a5bd3cd07ea90708|https://github.com/google/pthreadpool.git|560c60d342a76076f0557a3946924c6478470044"
  "fxdiv|fxdiv|0.0~git20200417.b408327|trixie|7953482badaf4cb34026c3487c257b8e4ab2df061c019bd6fabbbc12ad52c44b|https://github.com/Maratyszcza/FXdiv.git|b408327ac2a15ec3e43352421954f5b1967701d1"
  "zstd|libzstd|1.5.7+dfsg|trixie|0c092ef267edce57ba7f3f2645c861f72eaf5e76273c6c3632869423464b90a5|https://github.com/facebook/zstd.git|f8745da6ff1ad1e7bab384bd1f9d742439278e99"
)
