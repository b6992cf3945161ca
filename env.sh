cd /tmp/zg/rev; source /work/main/.venv/bin/activate; unset PYTHONDONTWRITEBYTECODE; export ZOO_GYM_HOME=/tmp/zg/revhome OMP_NUM_THREADS=1 PYTHONPATH=app:backends:models:. HF_HUB_OFFLINE=1
T=/tmp/zg/t
