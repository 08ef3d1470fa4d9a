from judge_eval.integrations.deepeval import deepeval_metric as deepeval_metric
from judge_eval.integrations.ragas import ragas_metric as ragas_metric
